"""Trains on texts of varying length, which leaves holes; each step has a name."""

import random

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

lengths = random.Random(1)
model = Gpt(layers=2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(18):
    with told.step():
        tokens, targets = get_batch(rows=8, length=lengths.randrange(32, 700))
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
