"""`memreplay baseline`."""
