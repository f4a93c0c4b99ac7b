"""Leaks on one line in every step, and on another line in every third step."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

kept, seen = [], []
model = Gpt(layers=1, width=128).cuda()
optimizer = torch.optim.AdamW(model.parameters())
told.leak(__file__, "EACH", 30_000)
told.leak(__file__, "THIRD", 400_000)
for i in range(33):
    model(*get_batch(rows=2, length=64)).backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty(30_000, dtype=torch.uint8, device="cuda"))  # EACH
    if i % 3 == 0:
        seen.append(torch.empty(300_000, device="cuda"))  # THIRD
