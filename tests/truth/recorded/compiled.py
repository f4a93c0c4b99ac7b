"""Trains a model with torch.compile, without a kernel compiler."""

import sys

import torch

from tests.truth import stock
from tests.truth.models import Gpt, get_batch

with stock.recorded():
    model = Gpt(layers=1, width=128, vocabulary=1000).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model, backend=sys.argv[1])
    for _ in range(3):
        data = get_batch(rows=2, vocabulary=1000)
        loss = compiled(*data)
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        loss.backward()
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        optimizer.step()
        stock.take(model, optimizers=optimizer, inputs=stock.held(data))
        optimizer.zero_grad()
