"""A recording's annotations."""
