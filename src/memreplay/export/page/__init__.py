"""Prepare a snapshot for the HTML page, as arrays that are small and fast to read."""
