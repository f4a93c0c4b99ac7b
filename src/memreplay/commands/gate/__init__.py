"""`memreplay gate`."""
