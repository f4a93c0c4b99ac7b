"""Halves its batch until it fits, as trainers do."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(layers=4, width=512, heads=8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
rows = 256
for _ in range(8):
    try:
        loss = model(*get_batch(rows=rows, length=512))
        loss.backward()
        optimizer.step()
    except torch.OutOfMemoryError as error:
        told.oom(error, None)
        rows //= 2
    loss = None
    optimizer.zero_grad()
