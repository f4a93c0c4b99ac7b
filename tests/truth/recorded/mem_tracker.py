"""PyTorch's own MemTracker runs alongside the recorder: three steps of an MLP."""

import sys
from typing import Any

import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.checkpoint import checkpoint

from tests.truth import stock, told

CHECKPOINTED = "--ckpt" in sys.argv


class Mlp(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.register_buffer("mask", torch.ones(width))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            if CHECKPOINTED:
                x = checkpoint(self.one, layer, x, use_reentrant=False)
            else:
                x = self.one(layer, x)
        return x

    def one(self, layer: Any, x: Any) -> Any:
        return torch.relu(layer(x)) * self.mask


class Doubling(torch.optim.Adam):
    """An optimizer that uses doubled gradients, in tensors that it allocates itself."""

    def step(self, closure: Any = None) -> Any:
        twice = [p.grad * 2 for group in self.param_groups for p in group["params"]]
        take()
        super().step(closure)
        del twice


def take(kind: str = "current") -> None:
    """Return MemTracker's current values, or its peak."""
    found = tracker.get_tracker_snapshot(kind)
    (sums,) = [of for device, of in found.items() if device.type == "cuda"]
    told.beside(kind, {getattr(key, "value", key): n_bytes for key, n_bytes in sums.items()})


with stock.recorded():
    model = Mlp(500, 4).cuda()
    optimizer = Doubling(model.parameters(), foreach="--foreach" in sys.argv)
    tracker = MemTracker()
    data = torch.randn(100, 500).cuda()
    tracker.track_external(model, optimizer, data)
    told.beside("begins")
    with tracker:
        for layer in model.layers:
            layer.register_forward_hook(lambda *_: take())
            layer.register_full_backward_hook(lambda *_: take())
        for _ in range(3):
            tracker.reset_mod_stats()
            loss = model(data).sum()
            take()
            loss.backward()
            take()
            optimizer.step()
            take()
            optimizer.zero_grad()
            take()
        take("peak")
