"""`memreplay dump`."""
