"""Accumulates gradients of tied and frozen weights, and zeroes them in place."""

import torch

from tests.truth import stock
from tests.truth.models import Gpt, get_batch

with stock.recorded():
    model = Gpt(layers=2, width=128, vocabulary=1000)
    model.head.weight = model.embedding.weight
    model.cuda()
    for parameter in model.blocks[0].parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(3):
        for _ in range(2):
            data = get_batch(rows=2, vocabulary=1000)
            (model(*data) / 2).backward()
            stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        optimizer.step()
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        optimizer.zero_grad(set_to_none=False)
        stock.take(model, optimizers=optimizer)
