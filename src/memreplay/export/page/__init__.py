"""A snapshot as a page for a browser: what it holds, as arrays that are small and quick to read."""
