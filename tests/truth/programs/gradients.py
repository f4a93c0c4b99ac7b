"""Gradients of gradients, checkpoints within checkpoints, functions with their own state."""

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tests.truth import told


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, x * x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        told.moment()
        x, square = ctx.saved_tensors
        return 3 * square * gradient + 0 * x


def deep(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.tanh(checkpoint(deep, x, n - 1, use_reentrant=False) if n else Cube.apply(x))


x = torch.randn(300_000).cuda().requires_grad_()
for i in range(5):
    y = deep(x, i).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (first * first).sum().backward()
    x.grad = None
