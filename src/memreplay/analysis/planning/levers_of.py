"""The levers: changes to a program that save memory. A new one is a line in FINDERS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.planning import code_levers, training_levers

if TYPE_CHECKING:
    from memreplay.analysis.planning.lever import Find, Lever, Recording

FINDERS: tuple[Find, ...] = (
    training_levers.set_to_none,
    training_levers.optimizers,
    code_levers.no_gradients,
    code_levers.fused_attention,
    code_levers.chunked_loss,
    training_levers.accumulate,
    training_levers.shard,
)


def levers_of(recording: Recording) -> list[Lever]:
    """Return the levers that change something in a recording, without those that recompute
    modules.
    """
    return [lever for find in FINDERS for lever in find(recording)]
