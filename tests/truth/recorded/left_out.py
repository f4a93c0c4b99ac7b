"""Trains with one optimizer, and clears the gradients of every second pass without using them."""

import torch
from torch import nn

from tests.truth import stock

with stock.recorded():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for turn in range(12):
        x = torch.randn(64, 256).cuda()
        model(x).pow(2).mean().backward()
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
        if turn < 4 or turn % 2:
            optimizer.step()
        optimizer.zero_grad()
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
