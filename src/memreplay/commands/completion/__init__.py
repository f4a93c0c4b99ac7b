"""`memreplay completion`."""
