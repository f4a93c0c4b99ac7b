"""Reads each step's peak from torch, as scripts do."""

import random

import torch

from tests.truth import told
from tests.truth.models import Gpt, get_batch

told.quiet()  # reading peaks here resets them
lengths = random.Random(2)
model = Gpt(layers=2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(16):
    with torch.profiler.record_function("truth_step"):
        torch.cuda.reset_peak_memory_stats()
        model(*get_batch(rows=6, length=lengths.randrange(32, 500))).backward()
        optimizer.step()
        optimizer.zero_grad()
        told.peak(torch.cuda.max_memory_allocated())
