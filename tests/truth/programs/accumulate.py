"""Trains with gradients from several batches per step."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(layers=2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(5):
    for _ in range(3):
        (model(*get_batch(rows=2)) / 3).backward()
    optimizer.step()
    told.stepped()
    optimizer.zero_grad()
