"""What many programs train with."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def mlp(width: int = 128, layers: int = 2) -> Any:
    """A small network of so many layers."""
    found: list[nn.Module] = []
    for _ in range(layers):
        found += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*found).cuda()


class Trained:
    """A network with its optimizer; called with a batch it does a step of training."""

    def __init__(self, width: int = 128, layers: int = 2) -> None:
        self.net = mlp(width, layers)
        self.opt = torch.optim.AdamW(self.net.parameters())

    def __call__(self, batch: Any) -> Any:
        """The loss, whose graph is gone unless the caller keeps it."""
        self.opt.zero_grad()
        loss = self.net(batch).square().mean()
        loss.backward()
        self.opt.step()
        return loss
