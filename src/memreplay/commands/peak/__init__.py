"""`memreplay peak`."""
