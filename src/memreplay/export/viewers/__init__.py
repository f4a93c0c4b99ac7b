"""Write files for other tools' viewers."""
