"""A small GPT without a fused attention kernel, so that attention probabilities are stored in
memory.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Input and output have shape (batch, length, width)."""
        batch, length, width = x.shape
        three = self.queries_keys_values(x).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in three)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
        probabilities = self.dropout(functional.softmax(scores, dim=-1))
        found = probabilities @ v
        return self.projection(found.transpose(1, 2).reshape(batch, length, width))


class Perceptron(nn.Module):
    """Two layers, the inner one four times as wide."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Input and output have shape (batch, length, width)."""
        return self.outer(functional.gelu(self.inner(x)))


class Block(nn.Module):
    """A layer of the transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.before_perceptron = nn.LayerNorm(width)
        self.perceptron = Perceptron(width)

    def forward(self, x: Tensor) -> Tensor:
        """Input and output have shape (batch, length, width)."""
        x = x + self.attention(self.before_attention(x))
        return x + self.perceptron(self.before_perceptron(x))


class Gpt(nn.Module):
    """Maps tokens to the loss of the next tokens."""

    def __init__(self, layers: int, width: int, heads: int, length: int, tokens: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: Tensor, following: Tensor) -> Tensor:
        """Return the loss for the tokens that follow `x`; both have shape (batch, length)."""
        hidden = self.tokens(x) + self.places.weight[: x.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(self.norm(hidden))
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten())
