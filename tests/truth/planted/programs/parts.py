"""What many programs train with."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

KIB = 1024


def kib(number: float) -> Any:
    """A tensor of so many KiB."""
    return torch.zeros(int(number * 256), device="cuda")


def numbers(seed: int = 0) -> random.Random:
    """Random numbers that are the same each time."""
    return random.Random(seed)


def mlp(width: int = 128, layers: int = 2) -> Any:
    """A small network of so many layers."""
    found: list[nn.Module] = []
    for _ in range(layers):
        found += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*found).cuda()


def batch(rows: int = 64, width: int = 128) -> Any:
    """A batch for `mlp`."""
    return torch.randn(rows, width, device="cuda")


class Trained:
    """A network with its optimizer; called with a batch it does a step of training."""

    def __init__(self, width: int = 128, layers: int = 2) -> None:
        self.net = mlp(width, layers)
        self.opt = torch.optim.AdamW(self.net.parameters())

    def __call__(self, inputs: Any) -> Any:
        """The loss, whose graph has nothing left to hold."""
        self.opt.zero_grad()
        loss = self.net(inputs).square().mean()
        loss.backward()
        self.opt.step()
        return loss
