"""Train a small GPT on random tokens: a program to try `memreplay dryrun` with.

memreplay dryrun --gpu A100-80 -- python examples/train_gpt.py --batch 16
"""

import argparse

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A transformer layer: causal attention and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.before_perceptron = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Input and output have shape (batch, length, width)."""
        batch, length, width = x.shape
        three = self.queries_keys_values(self.before_attention(x)).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in three)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(self.before_perceptron(x))


class Gpt(nn.Module):
    """Maps tokens to the logits of the next tokens."""

    def __init__(self, layers: int, width: int, heads: int, length: int, tokens: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map shape (batch, length) to (batch, length, tokens)."""
        x = self.tokens(x) + self.places.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main() -> None:
    """Train for a few steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()

    tokens = 50304
    with torch.device("cuda"):
        model = Gpt(asked.layers, asked.width, asked.heads, asked.length, tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    for _ in range(asked.steps):
        x = torch.randint(tokens, (asked.batch, asked.length + 1), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(x[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
