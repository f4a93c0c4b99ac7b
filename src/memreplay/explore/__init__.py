"""A snapshot in the terminal; `memreplay explore` starts it."""
