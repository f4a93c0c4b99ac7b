"""Many kinds of optimizers, each with its own model; one optimizer evaluates its model itself."""

import functools
from typing import Any

import torch
from torch import nn

from tests.truth import stock

KINDS: dict[Any, dict[str, Any]] = {
    torch.optim.LBFGS: {"max_iter": 3, "history_size": 4},
    torch.optim.SGD: {"lr": 0.1, "momentum": 0.9},
    torch.optim.Adagrad: {},
    torch.optim.RMSprop: {"momentum": 0.9, "centered": True},
    torch.optim.Adafactor: {},
    torch.optim.Rprop: {},
    torch.optim.Adamax: {},
}


def evaluated(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    return loss


with stock.recorded():
    for kind, options in KINDS.items():
        model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 64)).cuda()
        optimizer = kind(model.parameters(), **options)
        for _ in range(4):
            x = torch.randn(64, 256).cuda()

            optimizer.step(functools.partial(evaluated, model, optimizer, x))
            stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
        model = optimizer = None
