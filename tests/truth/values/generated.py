"""Programs of integer and boolean operators, as lists that hypothesis can make.

A program is a list of steps (operator, inputs, number). Its first tensors come from the host;
each step adds one, made from earlier ones. The program reads every tensor at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

ROWS, COLUMNS = 3, 5

Step = tuple[str, Sequence[int], int]


def whole(it: torch.Tensor) -> torch.Tensor:
    """Return a tensor as numbers in a grid, whatever its size was."""
    flat = it.long().flatten()
    missing = max(ROWS * COLUMNS - flat.numel(), 0)
    return torch.nn.functional.pad(flat, (0, missing))[: ROWS * COLUMNS].view(ROWS, COLUMNS)


def _written(a: torch.Tensor, b: torch.Tensor, n: int) -> torch.Tensor:
    a = a.clone()
    a[n % ROWS] = b[0]
    a.t()[n % COLUMNS].add_(n)
    return a


def _masked(a: torch.Tensor, b: torch.Tensor, n: int) -> torch.Tensor:
    a = a.clone()
    a[b > n] = n
    return a


# Each takes two grids of numbers and a small number.
OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]] = {
    "add": lambda a, b, n: a + b * n,
    "subtract": lambda a, b, n: (a - b) % 97,
    "compare": lambda a, b, n: (a > b) ^ (a == n),
    "divide": lambda a, b, n: a // (b.abs() + 1) + n,
    "clamp": lambda a, b, n: a.clamp(-n, n).maximum(b.clamp(max=50)),
    "where": lambda a, b, n: torch.where(a > n, a, b),
    "sum": lambda a, b, n: a.sum(n % 2) % 91,
    "cumsum": lambda a, b, n: a.cumsum(n % 2) % 89,
    "select": lambda a, b, n: a[b > n],
    "nonzero": lambda a, b, n: (a % (n + 1)).nonzero(),
    "unique": lambda a, b, n: torch.unique(a % (n + 2)),
    "bincount": lambda a, b, n: torch.bincount(a.flatten().abs() % (n + 3)),
    "repeat": lambda a, b, n: torch.repeat_interleave(b.flatten()[:4], a.flatten()[:4].abs() % 3),
    "gather": lambda a, b, n: a.gather(1, b.abs() % COLUMNS),
    "scatter": lambda a, b, n: a.scatter(1, b.abs()[:, :1] % COLUMNS, n),
    "sort": lambda a, b, n: a.sort(dim=n % 2, descending=bool(n % 3)).values,
    "concatenate": lambda a, b, n: torch.cat([a[:, n % COLUMNS :], b], dim=1),
    "roll": lambda a, b, n: a.roll(n, n % 2).flip(0),
    "write": _written,
    "write by mask": _masked,
    "fill": lambda a, b, n: torch.full_like(a, n).add_(b),
    "shift": lambda a, b, n: (a.abs() % 64) << (n % 4),
    "positions": lambda a, b, n: torch.arange(n, n + ROWS * COLUMNS, device=a.device),
    "one hot": lambda a, b, n: torch.nn.functional.one_hot(a[0].abs() % (n + 1)),
    "transpose": lambda a, b, n: a.t().contiguous(),
}


def program(steps: Sequence[Step]) -> Callable[[str], Any]:
    """Return the program as a function of the device."""

    def run(device: str) -> Any:
        first = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS)
        made = [(first % 7).to(device), (first * 5 % 11 - 3).to(device)]
        read = []
        for name, inputs, number in steps:
            a, b = (made[i % len(made)] for i in inputs)
            it = OPERATORS[name](a, b, number)
            read.append([list(it.shape), it.tolist()])
            made.append(whole(it))
        return [*read, [one.sum().item() for one in made]]

    return run
