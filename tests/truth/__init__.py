"""Compare memreplay with PyTorch's own allocator: programs run dry, and all figures must be
equal.
"""
