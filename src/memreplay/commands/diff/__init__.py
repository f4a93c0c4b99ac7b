"""`memreplay diff`."""
