"""Helpers and models shared by the programs."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

KIB = 1024


def kib(number: float) -> Any:
    """Return a tensor of this many KiB."""
    return torch.zeros(int(number * 256), device="cuda")


def numbers(seed: int = 0) -> random.Random:
    """Return random numbers from a fixed seed."""
    return random.Random(seed)


def mlp(width: int = 128, layers: int = 2) -> Any:
    """Return a small network with this many layers."""
    found: list[nn.Module] = []
    for _ in range(layers):
        found += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*found).cuda()


def batch(rows: int = 64, width: int = 128) -> Any:
    """Return a batch for `mlp`."""
    return torch.randn(rows, width, device="cuda")


class Trained:
    """A network and its optimizer; calling it with a batch does a training step."""

    def __init__(self, width: int = 128, layers: int = 2) -> None:
        self.net = mlp(width, layers)
        self.opt = torch.optim.AdamW(self.net.parameters())

    def __call__(self, inputs: Any) -> Any:
        """Train on a batch; return the loss, whose graph is already freed."""
        self.opt.zero_grad()
        loss = self.net(inputs).square().mean()
        loss.backward()
        self.opt.step()
        return loss
