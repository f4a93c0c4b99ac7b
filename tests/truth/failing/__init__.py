"""Programs that run out of memory in different ways."""
