"""What rules of categories caught."""
