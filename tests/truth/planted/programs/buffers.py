"""Lists, buffers and caches: some are full at some time, others never."""

from __future__ import annotations

import collections

import torch

from tests.truth import stock
from tests.truth.planted.programs.parts import Trained
from tests.truth.planted.truth import planted, steps


@planted()
def replay_buffer() -> None:
    """A buffer of 300 that swaps its entries, one a step."""
    buffer = collections.deque(torch.randn(128, 128, device="cuda") for _ in range(300))
    train = Trained()
    for _ in steps(60):
        buffer.popleft()
        buffer.append(torch.randn(128, 128, device="cuda"))
        train(torch.stack([buffer[7 * j] for j in range(8)]))


@planted({"KEPT": 65_536})
def history_kept() -> None:
    """Keeps a tensor of each step."""
    history = []
    train = Trained()
    for _ in steps(60):
        train(torch.randn(8, 128, 128, device="cuda"))
        history.append(torch.zeros(128, 128, device="cuda"))  # KEPT


@planted(categories=True)
def nothing_kept() -> None:
    """Trains, and keeps nothing."""
    train = Trained()
    for i in steps(40):
        train(torch.randn(8, 128, 128, device="cuda"))
        if i == 20:
            stock.take(train.net, optimizers=train.opt)
