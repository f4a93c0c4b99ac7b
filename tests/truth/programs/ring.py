"""Allocates a large tensor, then so many small ones that a small ring buffer drops the large one's
events.
"""

import torch

from tests.truth import told

large = torch.empty(3_000_000_000, dtype=torch.uint8, device="cuda")
told.moment()
del large
kept = []
for _ in range(2000):
    kept.append(torch.empty(1000, device="cuda"))
    if len(kept) > 100:
        kept.pop(0)
