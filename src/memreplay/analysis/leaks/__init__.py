"""Find where steps begin and end."""
