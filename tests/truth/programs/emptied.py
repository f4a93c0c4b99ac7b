"""Empties the cache now and then."""

import random

import torch

from tests.truth.models import Gpt, get_batch

chance = random.Random(6)
model = Gpt(layers=2).cuda()
for i in range(12):
    with torch.set_grad_enabled(i % 3 > 0):
        loss = model(*get_batch(rows=chance.randrange(1, 12)))
    if loss.requires_grad:
        loss.backward()
    del loss
    if i % 2:
        torch.cuda.empty_cache()
