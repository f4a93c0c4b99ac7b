"""Live sets as groups."""
