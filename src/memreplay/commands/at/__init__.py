"""`memreplay at`."""
