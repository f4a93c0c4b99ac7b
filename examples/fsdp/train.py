"""Train a transformer that FSDP2 shards over torchrun's ranks; the last rank keeps more memory.

That rank also evaluates for all ranks, and its outputs stay until the next step.
"""

import argparse
import os

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

WIDTH = 1024
TOKENS = 32000


class Model(nn.Module):
    """Maps tokens to logits."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (batch, length) to (batch, length, tokens)."""
        hidden = self.tokens(x)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def sharded(layers: int) -> Model:
    """Build the model without memory, then shard it over the ranks."""
    with torch.device("meta"):
        model = Model(layers)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    model.to_empty(device="cuda")
    return model


@torch.no_grad()
def evaluate(model: Model) -> Tensor:
    """Return the logits of a long batch, in full precision."""
    return model(torch.randint(TOKENS, (4, 1024), device="cuda")).float()


def train_step(model: Model, optimizer: torch.optim.Optimizer) -> None:
    """Run one step on random tokens, 2 x 512 per rank."""
    tokens = torch.randint(TOKENS, (2, 512), device="cuda")
    loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    """Run two steps; write each rank's snapshot to --output, with {rank} replaced by its number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.cuda.memory._record_memory_history(stacks="python")
    distributed.init_process_group("nccl")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    model = sharded(asked.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(asked.steps):
        logits = evaluate(model)
        if rank != ranks - 1:
            del logits
        train_step(model, optimizer)
        logits = None
    torch.cuda.memory._dump_snapshot(asked.output.format(rank=rank))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
