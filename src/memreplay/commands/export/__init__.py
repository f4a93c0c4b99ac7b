"""`memreplay export`."""
