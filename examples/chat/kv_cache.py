"""The keys and values of a conversation, which grow by torch.cat."""

import torch
from torch import Tensor


class KvCache:
    """The keys and values of each layer so far, of shape (tokens, width)."""

    def __init__(self, layers: int) -> None:
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append by allocating longer tensors; the shorter ones are freed."""
        old_keys, old_values = self.keys[layer], self.values[layer]
        if old_keys is not None and old_values is not None:
            keys, values = torch.cat((old_keys, keys)), torch.cat((old_values, values))
        else:
            keys, values = keys.clone(), values.clone()
        self.keys[layer], self.values[layer] = keys, values
        return keys, values
