"""Live sets as trees of calls."""
