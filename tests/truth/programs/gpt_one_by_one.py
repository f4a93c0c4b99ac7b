"""Trains a GPT whose optimizer processes one tensor at a time."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(layers=3).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False, amsgrad=True)
for _ in range(4):
    model(*get_batch(rows=2)).backward()
    optimizer.step()
    told.stepped()
    optimizer.zero_grad(set_to_none=False)
