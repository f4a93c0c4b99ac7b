"""Checkpoints inside checkpoints, of both kinds."""

import sys
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.truth import stock

REENTRANT = "--reentrant" in sys.argv


class Deep(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.inner = Deep(depth - 1) if depth else nn.GELU()
        self.second = nn.Linear(256, 256)

    def forward(self, x: Any) -> Any:
        x = checkpoint(self.inner, self.first(x).tanh(), use_reentrant=REENTRANT)
        return self.second(x).tanh()


with stock.recorded():
    model = Deep(3).cuda()
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(6)))
    layers.cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *layers.parameters()])
    for _ in range(3):
        x = torch.randn(64, 256).cuda().requires_grad_()
        y = model(x)
        z = checkpoint_sequential(layers, 3, y, use_reentrant=REENTRANT)
        stock.take(model, layers, optimizers=optimizer)
        z.sum().backward()
        stock.take(model, layers, optimizers=optimizer)
        del x, y, z
        optimizer.step()
        stock.take(model, layers, optimizers=optimizer)
        optimizer.zero_grad()
