"""Batches of varying length, and a buffer of examples to train on again."""

import random

import torch
from torch import Tensor


def batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Yield, for each step, tokens and the tokens that follow them, of shape 8 x 64 to 8 x 192."""
    chosen = random.Random(1)
    found = []
    for _ in range(steps):
        tokens = torch.randint(512, (8, 64 + 16 * chosen.randrange(9) + 1))
        found.append((tokens[:, :-1], tokens[:, 1:]))
    return found


class Buffer:
    """Examples to train on again; its capacity doubles when it's full."""

    def __init__(self) -> None:
        self.kept = torch.zeros(16, 8192, device="cuda")
        self.used = 0

    def add(self, losses: Tensor) -> None:
        """Keep a row."""
        if self.used == len(self.kept):
            self.kept = torch.cat((self.kept, torch.zeros_like(self.kept)))
        self.kept[self.used, : len(losses)] = losses
        self.used += 1
