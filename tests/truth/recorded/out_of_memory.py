"""Runs out of memory in the middle of a step, which writes a snapshot of that moment."""

import contextlib

import torch
from torch import nn

from tests.truth import stock

with contextlib.suppress(torch.OutOfMemoryError), stock.recorded():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        x = torch.randn(64, 256).cuda()
        y = model(x)
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
        if step == 2:
            torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
        y.sum().backward()
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
        optimizer.step()
        optimizer.zero_grad()
        y = None
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
