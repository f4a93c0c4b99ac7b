"""A language model's layers, reduced to what takes memory when serving."""

import torch
from kv_cache import KvCache
from torch import Tensor

WIDTH = 1024


class Layer:
    """The weights of one layer: those of attention, and the perceptron's two."""

    def __init__(self) -> None:
        self.mixing = torch.randn(3 * WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
        self.inner = torch.randn(4 * WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16)
        self.outer = torch.randn(WIDTH, 4 * WIDTH, device="cuda", dtype=torch.bfloat16)


def attention(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute all scores at once, in full precision; return (tokens, width), the shape of `x`."""
    scores = q.float() @ keys.float().t()
    return (scores.softmax(-1) @ values.float()).to(q.dtype)


def forward(layers: list[Layer], cache: KvCache, x: Tensor) -> Tensor:
    """Run the tokens `x` of shape (tokens, width) through all layers, and add them to the cache."""
    for number, layer in enumerate(layers):
        q, k, v = (x @ layer.mixing.t()).chunk(3, dim=-1)
        keys, values = cache.append(number, k, v)
        x = x + attention(q, keys, values)
        x = x + (x @ layer.inner.t()).relu() @ layer.outer.t()
    return x
