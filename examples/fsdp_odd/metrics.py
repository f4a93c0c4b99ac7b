"""What a rank measures beside training."""

import torch
from torch import Tensor, distributed
from torch.nn import functional


def keep_history(history: list[Tensor], logits: Tensor) -> None:
    """Keep what the model said of each fourth token, to see later where it went wrong."""
    history.append(logits.detach()[:, ::4].float())


@torch.no_grad()
def gather_losses(logits: Tensor, tokens: Tensor) -> Tensor | None:
    """The loss of each token on all ranks, which the first rank gets; None on the others."""
    losses = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
    gathered = None
    if distributed.get_rank() == 0:
        gathered = [torch.empty_like(losses) for _ in range(distributed.get_world_size())]
    distributed.gather(losses, gathered)
    return torch.stack(gathered) if gathered else None
