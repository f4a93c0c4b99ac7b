"""`memreplay report`."""
