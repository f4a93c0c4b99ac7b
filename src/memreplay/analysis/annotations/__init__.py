"""The annotations of a recording."""
