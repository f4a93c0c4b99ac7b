"""`memreplay steps`."""
