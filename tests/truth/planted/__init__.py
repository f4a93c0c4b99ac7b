"""Programs whose leaks, steps and categories are known, and what memreplay says of them."""
