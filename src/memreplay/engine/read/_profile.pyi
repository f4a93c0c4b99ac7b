"""Python interface to a torch.profiler trace: memory events, their stacks, and spans."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from typing_extensions import Never

from memreplay.engine.read.column import Column

# Any contiguous buffer. Typed as Any because NumPy arrays only match a buffer type since Python
# 3.12.
_Numbers: TypeAlias = Any

PYTHON_FRAME: Final[int]
OOM: Final[int]
ALLOCATED: Final[int]
RESERVED: Final[int]
BROKEN: Final[int]
OP: Final[int]
PYTHON: Final[int]
ANNOTATION: Final[int]

@final
class Profile:
    """A parsed trace; `read` returns it."""

    stream_bytes: int
    def __init__(self, *args: Never, **kwargs: Never) -> None: ...
    @property
    def has_events(self) -> bool: ...
    @property
    def base_ns(self) -> int: ...
    def memory(self) -> dict[str, Column]:
        """pid, tid, address, size, allocated, reserved, device_type, device and flags as in
        MemoryRow of profile.pxd; `us`: the time in microseconds since the epoch, rounded down;
        `order`: a number (u64) that sorts like the exact time.
        """

    def spans(self) -> dict[str, Column]:
        """pid, tid, name and kind as in SpanRow of profile.pxd; `us`, `order`, `end_us` and
        `end_order`: beginning and end as in `memory`; `longest_first` (u64) sorts by duration.
        """

    def text(self, i: int) -> bytes: ...
    def nest(self, order: _Numbers) -> tuple[Column, Column, Column]: ...

def read(
    readinto: Callable[[memoryview], int | None],
    limits: tuple[int, int, int, int, int, int, int],
    progress: Callable[[int], object] | None = None,
    ahead: Callable[[], tuple[bytearray, int, int, BaseException | None]] | None = None,
) -> Profile: ...
