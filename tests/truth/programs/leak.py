"""Keeps a tensor from each step, among other tensors that are allocated and freed at random."""

import random

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

noise = random.Random(3)
recent: list[torch.Tensor] = []
history: list[torch.Tensor] = []
model = Gpt(layers=1, width=128).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train_step() -> None:
    recent.append(torch.empty(noise.randrange(1, 50_000), device="cuda"))
    if len(recent) > noise.randrange(2, 9):
        recent.pop(noise.randrange(len(recent)))
    loss = model(*get_batch(rows=2, length=noise.randrange(32, 96)))
    history.append(torch.empty(25_600, device="cuda"))  # LEAK
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


told.leak(__file__, "LEAK", 102_400)
for _ in range(24):
    train_step()
