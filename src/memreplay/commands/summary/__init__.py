"""`memreplay summary`."""
