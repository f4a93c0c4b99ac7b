"""Requests sizes just below and above those at which the allocator's behaviour changes."""

import torch

edges = [512, 1 << 20, 2 << 20, 10 << 20, 12 << 20, 20 << 20, 100 << 20, 200 << 20, 1 << 30]
live = []
for turn in range(3):
    for edge in edges:
        for more in (-512, -511, -1, 0, 1, 511, 512, 513, 1 << 20):
            live.append(torch.empty(edge + more, dtype=torch.uint8, device="cuda"))  # noqa: PERF401
    del live[turn % 2 :: 2]
    if turn == 1:
        torch.cuda.empty_cache()
