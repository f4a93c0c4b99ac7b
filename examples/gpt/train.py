"""Train the GPT on random tokens and record two steps after the first one, as is usual.

The parameters, the optimizer's state and the first gradients are carried over, because they exist
before the recording begins. The second recorded step's batch is shorter.
"""

import argparse

import torch
from model import Gpt
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, schedule

TOKENS = 50304


class Batches:
    """Batches of random tokens, copied on a separate stream."""

    def __init__(self) -> None:
        self.copies = torch.cuda.Stream()

    def next(self, size: int, length: int) -> tuple[Tensor, Tensor]:
        """Return tokens and the tokens that follow them, both of shape (size, length)."""
        host = torch.randint(TOKENS, (size, length + 1)).pin_memory()
        with torch.cuda.stream(self.copies):
            device = host.to("cuda", non_blocking=True)
        training = torch.cuda.current_stream()
        training.wait_stream(self.copies)
        device.record_stream(training)
        return device[:, :-1], device[:, 1:]


def train_step(model: Gpt, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]) -> None:
    """Run one step in mixed precision; gradients are freed before the next step."""
    tokens, following = batch
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(tokens, following)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main() -> None:
    """Run one step, record two more, and write the snapshot to --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()

    # A dry run records from the start. End that, so that earlier events are unknown, as usual.
    torch.cuda.init()
    torch.cuda.memory._record_memory_history_impl(enabled=None)
    with torch.device("cuda"):
        model = Gpt(asked.layers, width=768, heads=12, length=1024, tokens=TOKENS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    batches = Batches()
    train_step(model, optimizer, batches.next(2, 1024))

    torch.cuda.memory._record_memory_history(global_record_annotations=True)
    every = schedule(wait=0, warmup=1, active=2)
    with profile(activities=[ProfilerActivity.CPU], schedule=every) as steps:
        for step in range(asked.steps):
            train_step(model, optimizer, batches.next(2, 1024 if step == 0 else 768))
            steps.step()
    torch.cuda.memory._dump_snapshot(asked.output)


if __name__ == "__main__":
    main()
