"""A tiny transformer with a cache, and a hook that makes reference cycles."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Rotary(nn.Module):
    """Rotates queries and keys by position; caches the angles for each length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.angles: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Input and output have shape (batch, heads, length, width)."""
        length = x.shape[2]
        if length not in self.angles:
            places = torch.arange(length, device=x.device, dtype=torch.float32)
            speeds = 10000.0 ** -torch.linspace(0, 1, self.width // 2, device=x.device)
            self.angles[length] = torch.polar(
                torch.ones((), device=x.device), torch.outer(places, speeds)
            )
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * self.angles[length]
        return torch.view_as_real(turned).flatten(-2)


class Block(nn.Module):
    """A layer: attention and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.rotary = Rotary(width // heads)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Input and output have shape (batch, length, width)."""
        batch, length, width = x.shape
        three = self.queries_keys_values(x).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in three)
        found = functional.scaled_dot_product_attention(
            self.rotary(q), self.rotary(k), v, is_causal=True
        )
        x = x + self.projection(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(x)


class Model(nn.Module):
    """Maps tokens to logits."""

    def __init__(
        self, layers: int = 2, width: int = 128, heads: int = 4, tokens: int = 512
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.layers = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, tokens)

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (batch, length) to (batch, length, tokens)."""
        return self.head(self.layers(self.tokens(x)))


class Trace:
    """Data that a hook keeps. It refers to itself, so only the garbage collector frees it."""

    def __init__(self, value: Tensor) -> None:
        self.value = value.detach().repeat(256)
        self.itself = self
