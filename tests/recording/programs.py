"""Training programs for a GPU. Each one creates its model and optimizer, and returns a function
that runs a step.

    memreplay dryrun -- python -m tests.recording.programs gpt --checkpoint

prints its second step's peak on a simulated A100, the value that the tests expect.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WORDS, WIDTH, HEADS, LENGTH, BATCH = 2000, 128, 4, 128, 4


class Block(nn.Module):
    """Attention and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.first(x)).view(batch, length, 3, HEADS, width // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    """A small language model whose head shares its embedding's weights."""

    def __init__(self, *, checkpointed: bool) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.words(text) + self.places(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.last(x))


def gpt(*options: str) -> Callable[[], None]:
    """Train with AdamW and clipped gradients."""
    model = Gpt(checkpointed="--checkpoint" in options).cuda()
    foreach = False if "--one-by-one" in options else None
    fused = True if "--fused" in options else None
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach, fused=fused)

    def step() -> None:
        text, next_text = (torch.randint(WORDS, (BATCH, LENGTH)).cuda() for _ in range(2))
        with casts(options):
            found = model(text).float().view(-1, WORDS)
            loss = functional.cross_entropy(found, next_text.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


class Conv(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.groups = nn.GroupNorm(8, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norm(self.first(x)))
        return functional.silu(x + self.groups(self.second(inner)))


def images(*options: str) -> Callable[[], None]:
    """Train convolutions with dropout, using SGD with momentum."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 7, 2, 3),
        *(Conv(32) for _ in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32, 10),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        image = torch.randn(8, 3, 96, 96, device="cuda")
        with casts(options):
            loss = functional.mse_loss(model(image).float(), torch.zeros(8, 10, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Weighing(nn.Module):
    """Explicit attention, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm(x)).chunk(3, -1)
        weights = (query @ key.transpose(-1, -2)) / 8
        later = torch.ones(weights.shape[-2:], device=x.device).triu(1)
        weights = weights.masked_fill(later == 1, float("-inf")).softmax(-1)
        return x + functional.dropout(weights, 0.1) @ value


def weighing(*options: str) -> Callable[[], None]:
    """Train many weights using Adam with the default for `foreach`."""
    model = nn.Sequential(*(Weighing() for _ in range(3)), nn.Linear(WIDTH, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        with casts(options):
            loss = model(torch.randn(16, 512, WIDTH).cuda()).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def casts(options: tuple[str, ...]) -> contextlib.AbstractContextManager[object]:
    """Return an autocast context if requested."""
    if "--amp" in options:
        found: contextlib.AbstractContextManager[object] = torch.autocast(
            "cuda", dtype=torch.bfloat16
        )
        return found
    return contextlib.nullcontext()


PROGRAMS = {"gpt": gpt, "images": images, "weighing": weighing}

if __name__ == "__main__":
    run = PROGRAMS[sys.argv[1]](*sys.argv[2:])
    run()
    torch.cuda.reset_peak_memory_stats()
    run()
    sys.stdout.write(f"{torch.cuda.memory_stats()['requested_bytes.all.peak']}\n")
