"""Puts the two halves of a model on two GPUs."""

import torch

from tests.truth.models import Block

first, second = Block(256, 4).to("cuda:0"), Block(256, 4).to("cuda:1")
optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()])
for i in range(5):
    x = torch.randn(4, 64 + 32 * i, 256).to("cuda:0")
    second(first(x).to("cuda:1")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.cuda.device(1):
        torch.empty(100_000 * (i + 1), device="cuda")
        torch.cuda.empty_cache()
