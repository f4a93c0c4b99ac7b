"""`memreplay slice`."""
