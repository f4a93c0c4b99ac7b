"""`memreplay leaks`."""
