"""Runs a model without gradients, and keeps its output."""

import torch
from torch import nn

from tests.truth import stock
from tests.truth.models import Gpt, get_batch

with stock.recorded():
    norm = nn.BatchNorm2d(16).cuda()
    model = Gpt(layers=2, width=128, vocabulary=1000).cuda().eval()
    kept = []
    for mode in (torch.no_grad, torch.inference_mode):
        for _ in range(3):
            with mode():
                norm(torch.randn(4, 16, 8, 8).cuda())
                tokens, _ = get_batch(rows=2, vocabulary=1000)
                kept.append(model(tokens).argmax(-1))
                stock.take(model, norm, inputs=stock.held([tokens]))
