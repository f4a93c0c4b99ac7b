"""Train a transformer that FSDP2 shards over eight ranks; one of them keeps more than the others.

Its loss went wrong once, so it has kept a history of its logits on the GPU ever since. The others
differ a little, as usual: sequence lengths vary between ranks, and the first rank gathers the
evaluation's losses.
"""

import argparse
import json
import os
import random
from collections.abc import Iterator

import torch
from metrics import gather_losses, keep_history
from model import TOKENS, Model, sharded
from torch import Tensor, distributed
from torch.nn import functional

WATCHED = 5  # the rank whose loss went wrong
KINDS = ("requested", "allocated", "active", "reserved")


def batches(rank: int) -> Iterator[Tensor]:
    """Yield batches of four random sequences as long as the longest of them. The first is longest
    of all, so that the allocator's cache is large enough from then on."""
    chosen = random.Random(rank)
    length = 512
    while True:
        yield torch.randint(TOKENS, (4, length + 1), device="cuda")
        length = 504 - 8 * chosen.randrange(8)


def train_step(model: Model, optimizer: torch.optim.Optimizer, tokens: Tensor) -> Tensor:
    """Run one step and return the logits of its forward pass."""
    logits = model(tokens[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return logits.detach()


@torch.no_grad()
def evaluate(model: Model) -> Tensor | None:
    """Return, on the first rank, all ranks' losses for a batch of the same length."""
    tokens = torch.randint(TOKENS, (1, 513), device="cuda")
    return gather_losses(model(tokens[:, :-1]), tokens[:, 1:])


def write_peaks(path: str, rank: int) -> None:
    """Append PyTorch's peaks of this rank, in bytes, to a file."""
    stats = torch.cuda.memory_stats()
    peaks = {kind: stats[f"{kind}_bytes.all.peak"] for kind in KINDS}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"rank": rank, **peaks}) + "\n")


def main() -> None:
    """Run a few steps, then an evaluation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--peaks", help="write what PyTorch counted at the end of this file")
    asked = parser.parse_args()

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    rank = distributed.get_rank()
    model = sharded(asked.layers, asked.width, asked.heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    history: list[Tensor] = []
    for step, tokens in enumerate(batches(rank), 1):
        logits = train_step(model, optimizer, tokens)
        if rank == WATCHED:
            keep_history(history, logits)
        del logits
        if step == asked.steps:
            break
    evaluate(model)
    if asked.peaks:
        write_peaks(asked.peaks, rank)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
