"""Use the whole library from many threads and processes at once."""
