"""PyTorch's own MemTracker runs beside the recorder: an MLP, twice, with and without checkpoints."""

import sys

import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.checkpoint import checkpoint

from tests.truth import told

from tests.truth import stock

CHECKPOINTED = "--ckpt" in sys.argv


class Mlp(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.register_buffer("mask", torch.ones(width))

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(self.one, layer, x, use_reentrant=False) if CHECKPOINTED else self.one(layer, x)
        return x

    def one(self, layer, x):
        return torch.relu(layer(x)) * self.mask


def take(tracker, at_rest):
    """What it says now."""
    found = tracker.get_tracker_snapshot("current")
    (sums,) = [of for device, of in found.items() if device.type == "cuda"]
    told.beside("mem_tracker", at_rest, {getattr(k, "value", k): n for k, n in sums.items()})


with stock.recorded():
    torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")  # takes a workspace
    model = Mlp(500, 4).cuda()
    optimizer = torch.optim.Adam(model.parameters(), foreach="--foreach" in sys.argv)
    tracker = MemTracker()
    data = torch.randn(100, 500).cuda()
    tracker.track_external(model, optimizer, data)
    with tracker:
        for layer in model.layers:
            layer.register_forward_hook(lambda *_: take(tracker, at_rest=False))
            layer.register_full_backward_hook(lambda *_: take(tracker, at_rest=False))
        for _ in range(3):
            tracker.reset_mod_stats()
            loss = model(data).sum()
            take(tracker, at_rest=True)
            loss.backward()
            take(tracker, at_rest=True)
            optimizer.step()
            take(tracker, at_rest=True)
            optimizer.zero_grad()
            take(tracker, at_rest=True)
