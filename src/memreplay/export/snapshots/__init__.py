"""A snapshot cut down, as a snapshot of its own."""
