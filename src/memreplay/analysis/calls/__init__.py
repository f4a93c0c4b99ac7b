"""Live sets as call trees."""
