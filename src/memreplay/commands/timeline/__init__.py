"""`memreplay timeline`."""
