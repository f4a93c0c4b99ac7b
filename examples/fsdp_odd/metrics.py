"""Metrics that a rank collects while training."""

import torch
from torch import Tensor, distributed
from torch.nn import functional


def keep_history(history: list[Tensor], logits: Tensor) -> None:
    """Keep the model's output for every fourth token, to find out later where it went wrong."""
    history.append(logits.detach()[:, ::4].float())


@torch.no_grad()
def gather_losses(logits: Tensor, tokens: Tensor) -> Tensor | None:
    """Return each token's loss on all ranks, on the first rank; None on the others."""
    losses = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
    gathered = None
    if distributed.get_rank() == 0:
        gathered = [torch.empty_like(losses) for _ in range(distributed.get_world_size())]
    distributed.gather(losses, gathered)
    return torch.stack(gathered) if gathered else None
