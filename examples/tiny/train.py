"""Train a tiny model for forty steps, each of which appends a tensor of 64 KiB to a list.

The rest is normal for training: batches of varying length, optimizer state and gradients created
in the first step, a cache that fills, a buffer that grows twice, reference cycles that are
collected later, two evaluations.
Line numbers in the snapshot next to this folder refer to this file.
"""

import argparse
import gc
from collections import deque

import torch
from data import Buffer, batches
from model import Model, Trace
from torch import Tensor
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule


class Run:
    """The model, and everything else that the loop keeps."""

    def __init__(self) -> None:
        self.model = Model().cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.buffer = Buffer()
        self.recent: deque[Tensor] = deque(maxlen=8)
        self.kept: list[Tensor] = []

    def train_step(self, tokens: Tensor, following: Tensor) -> None:
        """Run one step; its last line leaks."""
        logits = self.model(tokens.cuda())
        losses = functional.cross_entropy(
            logits.flatten(0, 1), following.cuda().flatten(), reduction="none"
        )
        losses.mean().backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.buffer.add(losses.detach())
        Trace(losses[:64])
        self.recent.append(losses.detach().clone())
        self.kept.append(logits.detach().flatten()[:16384].clone())

    @torch.no_grad()
    def evaluate(self) -> None:
        """Evaluate two long batches, without gradients."""
        self.model.eval()
        for _ in range(2):
            tokens = torch.randint(512, (32, 192), device="cuda")
            functional.cross_entropy(self.model(tokens).flatten(0, 1), tokens.flatten())
        self.model.train()


def main() -> None:
    """Train while recording; write the snapshot to --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", required=True)
    asked = parser.parse_args()

    torch.cuda.memory._record_memory_history(global_record_annotations=True, stacks="python")
    gc.disable()
    run = Run()
    every = schedule(wait=0, warmup=1, active=asked.steps)
    with profile(activities=[ProfilerActivity.CPU], schedule=every) as steps:
        for step, (tokens, following) in enumerate(batches(asked.steps), 1):
            run.train_step(tokens, following)
            if step % 15 == 0:
                run.evaluate()
            if step % 7 == 0:
                gc.collect()
            steps.step()
    torch.cuda.memory._dump_snapshot(asked.output)


if __name__ == "__main__":
    main()
