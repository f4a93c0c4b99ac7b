"""Train models of many kinds, whose blocks are checkpointed by this program or not:

    python -m tests.truth.changed OUT [--by-hand] [NAME …]

OUT gets, for each kind: the peaks on the card, and the results on the host.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint

WIDTH, BLOCKS, STEPS = 64, 4, 3
BY_HAND = "--by-hand" in sys.argv
Call = Callable[..., Any]


class Mlp(nn.Module):
    """A block with dropout, whose forward pass the kinds change."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.2)

    def inner(self, x: Any) -> Any:
        return x + self.drop(self.down(gelu(self.up(self.norm(x)))))

    def forward(self, x: Any) -> Any:
        return self.inner(x)

    def run(self, call: Call, x: Any) -> Any:
        """Call this block by `call`, as its model does, and return the next block's input."""
        return call(x)


class Tuple(Mlp):
    def forward(self, x: Any) -> Any:
        return self.inner(x), x.mean()

    def run(self, call: Call, x: Any) -> Any:
        hidden, mean = call(x)
        return hidden + mean


class Dict(Mlp):
    def forward(self, x: Any) -> Any:
        return {"hidden": self.inner(x), "others": [x.amax(-1), None], "name": "a block"}

    def run(self, call: Call, x: Any) -> Any:
        found = call(x)
        assert (list(found), found["name"]) == (["hidden", "others", "name"], "a block")
        return found["hidden"] * found["others"][0].unsqueeze(-1)


@dataclass
class Output:
    hidden: Any
    extra: Any = None


class Dataclass(Mlp):
    def forward(self, x: Any) -> Any:
        return Output(self.inner(x), extra=(x * 2,))

    def run(self, call: Call, x: Any) -> Any:
        found = call(x)
        assert isinstance(found, Output)
        return found.hidden + found.extra[0]


class Keywords(Mlp):
    def forward(self, *, x: Any, mask: Any) -> Any:  # type: ignore[override]
        return self.inner(x * mask)

    def run(self, call: Call, x: Any) -> Any:
        return call(x=x, mask=torch.ones_like(x))


class Reserved(Mlp):
    """Has an argument that checkpoint() has, too."""

    def forward(self, x: Any, debug: bool) -> Any:  # type: ignore[override]
        return self.inner(x) if debug else x

    def run(self, call: Call, x: Any) -> Any:
        return call(x, debug=True)


class Others(Mlp):
    """Has arguments that aren't tensors."""

    def forward(self, x: Any, times: int, how: str, sizes: list[int], more: Any) -> Any:  # type: ignore[override]
        return self.inner(x).view(sizes) * times + (more["bias"] if how == "biased" else 0)

    def run(self, call: Call, x: Any) -> Any:
        return call(x, 2, "biased", list(x.shape), {"bias": x[0], "none": None})


class InPlace(Mlp):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        hidden = self.up(self.norm(x))
        hidden.mul_(2)
        return self.down(self.act(hidden)).add_(x)


class Hooked(Mlp):
    """Its hooks change what the block gets and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(lambda _, args: (args[0] * 1.5,))
        self.register_forward_hook(lambda _, args, out: out + args[0])


class Nested(Mlp):
    """Has blocks within blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(2))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.inner(x)


class Already(Mlp):
    """Checkpoints a part of itself."""

    def forward(self, x: Any) -> Any:
        return checkpoint(self.inner, x, use_reentrant=False)


class Views(Mlp):
    """Gets and returns views, one of them its input."""

    def forward(self, x: Any) -> Any:
        return self.inner(x)[:, :], x

    def run(self, call: Call, x: Any) -> Any:
        found, same = call(x.view(x.shape))
        return found + same


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, dropout=0.1, batch_first=True)

    def forward(self, x: Any) -> Any:
        return x + self.attention(x, x, x, need_weights=False)[0]

    def run(self, call: Call, x: Any) -> Any:
        return call(x)


class Sequential(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(Mlp(), nn.BatchNorm1d(16), nn.Linear(WIDTH, WIDTH), nn.Tanh())

    def run(self, call: Call, x: Any) -> Any:
        return call(x)


def by_hand(block: Any, *args: Any, **kwargs: Any) -> Any:
    if type(block).__name__ == "Reserved":
        return checkpoint(partial(block, **kwargs), *args, use_reentrant=False)
    return checkpoint(block, *args, use_reentrant=False, **kwargs)


class Model(nn.Module):
    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 8)
        self.blocks = nn.ModuleList(kind() for _ in range(BLOCKS))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block.run(partial(by_hand, block) if BY_HAND else block, x)
        return self.last(x)


@contextlib.contextmanager
def distributed(backend: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group(backend, init_method=f"file://{folder}/it", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


KINDS: dict[str, type[Any]] = {
    "mlp": Mlp,
    "sequential": Sequential,
    "tuple": Tuple,
    "dict": Dict,
    "dataclass": Dataclass,
    "keywords": Keywords,
    "reserved": Reserved,
    "others": Others,
    "in place": InPlace,
    "hooked": Hooked,
    "nested": Nested,
    "already": Already,
    "views": Views,
    "attention": Attention,
    "autocast": Mlp,
    "autocast, attention": Attention,
    "ddp": Mlp,
    "eval": Mlp,
}


def train(name: str, device: str) -> str:
    """Train a model. Return a digest of its losses, gradients and parameters."""
    torch.manual_seed(0)
    found = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        model: Any = Model(KINDS[name]).to(device)
        if name == "eval":
            model.eval()
        if name == "ddp":
            stack.enter_context(distributed("nccl" if device == "cuda" else "gloo"))
            model = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(STEPS):
            x = torch.randn(32, 16, WIDTH, device=device)
            with torch.autocast(device, torch.bfloat16, enabled=name.startswith("autocast")):
                loss = model(x).float().square().mean()
            loss.backward()
            if device == "cpu":
                found.update(loss.detach().numpy().tobytes())
                for one in model.parameters():
                    for values in (one.grad, one.detach()):
                        found.update(b"-" if values is None else values.numpy().tobytes())
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                model(x)
    return found.hexdigest()


def peaks(name: str) -> dict[str, int]:
    """Train a model on the card, and return how much memory it took."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    train(name, "cuda")
    now = torch.cuda.memory_stats()
    found = {
        f"{one}_bytes": now[f"{one}_bytes.all.peak"] for one in ("requested", "active", "reserved")
    }
    return {**found, "allocations": now["allocation.all.allocated"] - before}


if __name__ == "__main__":
    out, *names = [one for one in sys.argv[1:] if not one.startswith("--")]
    torch.cuda.init()
    Path(out).write_text(
        json.dumps({name: {"host": train(name, "cpu"), **peaks(name)} for name in names or KINDS})
    )
