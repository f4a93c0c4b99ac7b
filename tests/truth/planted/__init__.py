"""Programs whose leaks, steps and categories are known, to check memreplay's results."""
