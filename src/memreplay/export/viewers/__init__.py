"""Files for viewers."""
