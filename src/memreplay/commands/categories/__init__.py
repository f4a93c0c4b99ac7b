"""`memreplay categories`."""
