"""Trains for a while before the recording begins."""

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

model = Gpt(layers=2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
other = torch.cuda.Stream()
for i in range(8):
    if i == 3:
        told.begin_again()
    model(*get_batch(rows=2 + i)).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.cuda.stream(other):
        torch.empty(3_000_000, device="cuda")
    if i == 6:
        torch.cuda.empty_cache()
