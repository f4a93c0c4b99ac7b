"""Rules of categories, and where allocations come from."""
