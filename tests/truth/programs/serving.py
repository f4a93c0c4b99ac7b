"""Serves requests whose tensors live for random times, from 512 bytes to gigabytes."""

import random

import torch

from tests.truth import told

chance = random.Random(4)
live: list[torch.Tensor] = []
for _ in range(1500):
    if live and chance.random() < 0.48:
        live.pop(chance.randrange(len(live)))
        continue
    try:
        size = int(2 ** chance.uniform(9, 31.5 if chance.random() < 0.1 else 25))
        live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        told.oom(error, None)
        del live[: len(live) // 2]
    if sum(map(len, live)) > 12 << 30:
        del live[: len(live) // 2]
