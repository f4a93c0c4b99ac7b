"""Record a program: PyTorch's memory history, plus what each allocation is for."""
