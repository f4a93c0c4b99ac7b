"""Where steps begin and end."""
