"""Limits itself to part of the GPU's memory, and requests more."""

import torch

FAILS = "process_limit"
torch.cuda.set_per_process_memory_fraction(0.25)
live = []
while True:
    live.append(torch.empty(200 << 20, dtype=torch.uint8, device="cuda"))
    torch.empty(90 << 20, dtype=torch.uint8, device="cuda")
