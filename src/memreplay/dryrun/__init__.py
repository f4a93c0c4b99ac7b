"""Dry runs: the fake GPU, and running programs on it."""
