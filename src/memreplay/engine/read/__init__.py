"""Read bytes into columns."""
