"""Trains with one optimizer, and clears the gradients of every second backward pass without using
them. Then it freezes the last layer, and finally deletes the optimizer.
"""

import torch
from torch import nn

from tests.truth import stock


def train(optimizers: list[torch.optim.Optimizer], turn: int) -> None:
    x = torch.randn(64, 256).cuda()
    model(x).pow(2).mean().backward()
    stock.take(model, optimizers=optimizers, inputs=stock.held([x]))
    for optimizer in optimizers:
        if turn < 4 or turn % 2:
            optimizer.step()
        optimizer.zero_grad()
    stock.take(model, optimizers=optimizers, inputs=stock.held([x]))


with stock.recorded():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)).cuda()
    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(model.parameters())]
    for turn in range(10):
        train(optimizers, turn)
    model[2].requires_grad_(False)
    train(optimizers, 11)
    train(optimizers, 11)
    train(optimizers, 12)
    model[2].requires_grad_(True)
    del optimizers[:]
    train(optimizers, 13)
