"""The memory matched by category rules."""
