"""Goes on after exceptions in a module, in a backward pass and in an optimizer."""

import torch
from torch import nn

from tests.truth import stock


class Fails(Exception):
    pass


class Failing(nn.Module):
    """Passes its input on."""

    now = False

    def forward(self, x):
        if self.now:
            raise Fails
        return x


class FailingBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise Fails


class FailingStep(torch.optim.Adam):
    now = False

    def _init_group(self, *args, **kwargs):
        if self.now:
            raise Fails
        return super()._init_group(*args, **kwargs)


with stock.recorded():
    failing = Failing()
    model = nn.Sequential(
        nn.Linear(256, 512), nn.GELU(), failing, nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8)
    ).cuda()
    optimizer = FailingStep(model.parameters())

    def take():
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
        except Fails:
            pass
        take()
        optimizer.zero_grad()
        take()
        y = loss = None
        take()
