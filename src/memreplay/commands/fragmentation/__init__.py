"""`memreplay fragmentation`."""
