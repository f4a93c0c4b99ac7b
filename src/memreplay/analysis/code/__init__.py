"""What frames say: whose code, which operator, what a pattern matches."""
