"""Python interface to groups' bytes at many events."""

from collections.abc import Sequence
from typing import final

from memreplay.engine.read.column import Column
from memreplay.engine.replay._measures import Classes
from memreplay.engine.replay._timeline import Replay

@final
class Layering:
    """State for computing bytes at samples."""

    def __new__(cls, replay: Replay, wanted: Sequence[int], samples: Sequence[int]) -> Layering: ...

def reserved_layers(
    classes: Classes,
    wanted: Sequence[int],
    samples: Sequence[int],
    only: Sequence[tuple[Classes, int]] = (),
) -> list[Column]: ...
