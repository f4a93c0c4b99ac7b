"""`memreplay help`."""
