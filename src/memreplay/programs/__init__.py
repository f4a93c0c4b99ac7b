"""Start other programs to record or dry-run them."""
