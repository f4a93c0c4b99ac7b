"""The levers: changes to a program that save memory. A new one is a line in FINDERS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.planning.levers import code, training

if TYPE_CHECKING:
    from memreplay.analysis.planning.levers.base import Find, Lever, Recording

FINDERS: tuple[Find, ...] = (
    training.set_to_none,
    training.optimizers,
    code.no_gradients,
    code.fused_attention,
    code.chunked_loss,
    training.accumulate,
    training.shard,
)


def levers_of(recording: Recording) -> list[Lever]:
    """Return the levers that change something in a recording, without those that recompute
    modules.
    """
    return [lever for find in FINDERS for lever in find(recording)]
