"""What a program allocates, noted while it runs."""
