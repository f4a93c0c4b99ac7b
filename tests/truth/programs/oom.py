"""Keeps more with each step, until it runs out of memory and fails."""

import torch

from tests.truth.models import Gpt, get_batch

FAILS = "capacity"
kept = []
model = Gpt(layers=2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    model(*get_batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty(2_500, 1 << 20, dtype=torch.uint8, device="cuda"))
