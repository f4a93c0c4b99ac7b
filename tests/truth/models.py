"""Models that several programs train."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, width = x.shape
        qkv = self.qkv(self.norm(x)).view(b, t, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    """A language model; `checkpointed` keeps only the inputs of blocks."""

    def __init__(
        self,
        layers: int = 4,
        width: int = 256,
        heads: int = 4,
        vocabulary: int = 5000,
        checkpointed: bool = False,
    ) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any, targets: Any = None) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def get_batch(rows: int = 4, length: int = 256, vocabulary: int = 5000) -> tuple[Any, Any]:
    """Return tokens, and the token that follows each."""
    both = torch.randint(vocabulary, (rows, length + 1))
    return both[:, :-1].cuda(), both[:, 1:].cuda()
