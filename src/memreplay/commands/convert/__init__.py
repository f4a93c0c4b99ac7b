"""`memreplay convert`."""
