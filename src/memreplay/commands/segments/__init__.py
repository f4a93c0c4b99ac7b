"""`memreplay segments`."""
