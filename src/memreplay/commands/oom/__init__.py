"""`memreplay oom`."""
