"""What holds memory at a moment, in rows: a module a kind."""
