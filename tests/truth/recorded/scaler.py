"""Trains in half precision; a GradScaler skips the first and third steps."""

from typing import Any

import torch
from torch import nn

from tests.truth import stock


class Leaving(torch.amp.GradScaler):
    """Skips these steps. A dry run computes no values, so no gradient can be infinite."""

    turn = 0

    def _maybe_opt_step(self, *args: Any, **kwargs: Any) -> Any:
        self.turn += 1
        if self.turn in (1, 3):
            return None
        return super()._maybe_opt_step(*args, **kwargs)


with stock.recorded():
    model = nn.Sequential(nn.Linear(256, 512), nn.BatchNorm1d(512), nn.GELU(), nn.Linear(512, 64))
    model.cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = Leaving("cuda")
    for _ in range(4):
        x = torch.randn(64, 256).cuda()
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().pow(2).mean()
        scaler.scale(loss).backward()
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
        scaler.step(optimizer)
        scaler.update()
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
        optimizer.zero_grad()
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))
