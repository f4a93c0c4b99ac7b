"""memreplay held against PyTorch's own allocator: programs that run dry, and their figures."""
