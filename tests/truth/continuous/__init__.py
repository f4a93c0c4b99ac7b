"""Programs that record continuously, and what PyTorch says about them."""
