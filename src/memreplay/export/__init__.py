"""Tables and files for other programs."""
