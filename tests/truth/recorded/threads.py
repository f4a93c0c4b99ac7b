"""Trains two models in two threads, while the main thread runs a third."""

import threading
from typing import Any

import torch
from torch import nn

from tests.truth import stock

models: list[Any] = []
optimizers: list[Any] = []


def made() -> tuple[Any, Any]:
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))).cuda()
    models.append(model)
    optimizers.append(torch.optim.Adam(model.parameters()))
    return model, optimizers[-1]


def train() -> None:
    model, optimizer = made()
    for _ in range(6):
        model(torch.randn(16, 256).cuda()).sum().backward()
        optimizer.step()
    # Gradients are left.


with stock.recorded():
    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    train()
    for thread in threads:
        thread.join()
    stock.take(*models, optimizers=optimizers)
