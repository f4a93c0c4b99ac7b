"""Batches of varying length, and a buffer of examples to train on again."""

import random

import torch
from torch import Tensor


def batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    """For each step tokens and those that follow them, of 8 x 64 to 8 x 192."""
    chosen = random.Random(1)
    found = []
    for _ in range(steps):
        tokens = torch.randint(512, (8, 64 + 16 * chosen.randrange(9) + 1))
        found.append((tokens[:, :-1], tokens[:, 1:]))
    return found


class Buffer:
    """Examples to see again; it doubles when it is full."""

    def __init__(self) -> None:
        self.kept = torch.zeros(16, 8192, device="cuda")
        self.used = 0

    def add(self, losses: Tensor) -> None:
        """Keep a row."""
        if self.used == len(self.kept):
            self.kept = torch.cat((self.kept, torch.zeros_like(self.kept)))
        self.kept[self.used, : len(losses)] = losses
        self.used += 1
