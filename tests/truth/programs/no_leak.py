"""Grows without a leak: a cache that fills, a list that is cleared, a buffer that is replaced."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

cache: dict[int, torch.Tensor] = {}
losses, longest = [], None
model = Gpt(layers=1, width=128).cuda()
optimizer = torch.optim.AdamW(model.parameters())
told.no_leak()
for i in range(30):
    loss = model(*get_batch(rows=2, length=64))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    cache.setdefault(i * i % 8, torch.empty(100_000, device="cuda"))
    losses.append(loss.detach())
    if len(losses) == 5:
        losses.clear()
    longest = torch.empty(10_000 + 100 * (i % 4), device="cuda")
