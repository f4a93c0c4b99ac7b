"""The recorder: PyTorch's own recording of memory, and what each allocation was for."""
