"""The transformer, and how it is sharded over the ranks."""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

TOKENS = 32000


class Block(nn.Module):
    """A layer: causal attention and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.before_perceptron = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Input and output have shape (batch, length, width)."""
        batch, length, width = x.shape
        three = self.queries_keys_values(self.before_attention(x)).split(width, dim=2)
        q, k, v = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in three)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.before_perceptron(x))))


class Model(nn.Module):
    """Maps tokens to the logits of the next tokens."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, TOKENS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (batch, length) to (batch, length, tokens)."""
        hidden = self.tokens(x)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden))


def sharded(layers: int, width: int, heads: int) -> Model:
    """Build the model without memory, then shard it over the ranks."""
    with torch.device("meta"):
        model = Model(layers, width, heads)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    model.to_empty(device="cuda")
    return model
