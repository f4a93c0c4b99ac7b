"""Continues after exceptions in a module, in a backward pass and in an optimizer."""

from typing import Any

import torch
from torch import nn

from tests.truth import stock


class FailedError(Exception):
    pass


class Failing(nn.Module):
    """Passes its input through."""

    now = False

    def forward(self, x: Any) -> Any:
        if self.now:
            raise FailedError
        return x


class FailingBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        raise FailedError


class FailingStep(torch.optim.Adam):
    now = False

    def _init_group(self, *args: Any, **kwargs: Any) -> Any:
        if self.now:
            raise FailedError
        return super()._init_group(*args, **kwargs)


with stock.recorded():
    failing = Failing()
    model = nn.Sequential(
        nn.Linear(256, 512), nn.GELU(), failing, nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8)
    ).cuda()
    optimizer = FailingStep(model.parameters())

    def take() -> None:
        stock.take(model, optimizers=optimizer, inputs=stock.held([x]))

    for where in ("", "forward", "backward", "step", "forward", "backward", "step", ""):
        x = torch.randn(64, 256).cuda()
        failing.now = where == "forward"
        optimizer.now = where == "step"
        try:
            y = model(x)
            loss = (FailingBack.apply(y) if where == "backward" else y).sum()
            loss.backward()
            take()
            optimizer.step()
        except FailedError:
            pass
        take()
        optimizer.zero_grad()
        take()
        y = loss = None
        take()
