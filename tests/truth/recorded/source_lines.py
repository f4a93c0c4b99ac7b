"""Checks that the recording contains the source lines named in stacks."""

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.truth import stock


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(256, 256)

    def forward(self, x: Any) -> Any:
        return self.inner(x) * 2


def train() -> None:
    model = Doubled().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        x = torch.randn(32, 256).cuda()
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    stock.take(model, optimizers=optimizer, inputs=stock.held([x]))


with stock.recorded(source=True) as recorder:
    train()

with open(recorder.path, "rb") as file:
    snapshot = pickle.load(file)
kept = snapshot["memreplay"]["source_lines"]
own = Path(__file__).parent.parent
assert all(own in Path(one).parents for one in kept), list(kept)
named = {
    frame["line"]
    for events in snapshot["device_traces"]
    for event in events
    for frame in event.get("frames") or ()
    # The server runs this file with exec, so lines named by <module> may be from other code.
    if frame["filename"] == __file__ and frame["name"] != "<module>"
}
lines = Path(__file__).read_text(encoding="utf-8").splitlines()
assert kept[__file__] == {str(line): lines[line - 1].strip() for line in named}
assert "return self.inner(x) * 2" in kept[__file__].values()
assert "optimizer.step()" in kept[__file__].values()
