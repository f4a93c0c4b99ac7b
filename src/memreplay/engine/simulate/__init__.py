"""Simulate PyTorch's caching allocator."""
