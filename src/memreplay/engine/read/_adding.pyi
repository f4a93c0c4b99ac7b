"""Python interface for filling tables with rows from a dataset."""

from typing import Any, TypeAlias, final

from memreplay._core import Tables
from memreplay.engine.read.column import Column

# Any contiguous buffer. Typed as Any because NumPy arrays only match a buffer type since Python
# 3.12.
_Numbers: TypeAlias = Any

class WrongRowError(ValueError):
    """An invalid row; its argument is the row number."""

def same_length(n: int, *others: int) -> None:
    """Raise ValueError unless all lengths are `n`."""

def decoded(at: _Numbers, codes: _Numbers, missing: int, valid: _Numbers, offset: int) -> Column:
    """Return the u32 code of each row:

    `codes[at[i]]`, or `missing` for rows that aren't valid.

    `valid` is a bitmap, lowest bit first, with row i at bit `offset + i`, or None if all are valid.
    Raises WrongRowError with the first row whose index is out of range, and ValueError.
    """

@final
class Adding:
    """Tables that are being filled. `_core.read` passes them to `then`."""

    def __new__(cls, tables: Tables) -> Adding: ...
    def intern(self, data: _Numbers, offsets: _Numbers) -> Column: ...
    def pool(self, first: int, second: int) -> int: ...
    def code_of(self, other: Tables) -> tuple[Column, Column]: ...
    def action(self, name: bytes) -> int: ...
    def frames(
        self,
        function: _Numbers,
        file: _Numbers,
        line: _Numbers,
        op: _Numbers,
        name: _Numbers,
        target: _Numbers,
        trace: _Numbers,
    ) -> None: ...
    def stacks(self, offsets: _Numbers, frames: _Numbers) -> None: ...
    def trace(self, device: int) -> None: ...
    def events(
        self,
        action: _Numbers,
        address: _Numbers,
        size: _Numbers,
        time: _Numbers,
        stream: _Numbers,
        stack: _Numbers,
        pool: _Numbers,
        compile_context: _Numbers,
        user_metadata: _Numbers,
        device_free: _Numbers,
        has_device_free: _Numbers,
    ) -> None: ...
    def carried(self, address: int, size: int, time: int) -> None: ...
    def segments(
        self,
        device: _Numbers,
        address: _Numbers,
        total: _Numbers,
        allocated: _Numbers,
        active: _Numbers,
        requested: _Numbers,
        has_requested: _Numbers,
        stream: _Numbers,
        kind: _Numbers,
        pool: _Numbers,
        stack: _Numbers,
        expandable: _Numbers,
    ) -> None: ...
    def blocks(
        self,
        segment: _Numbers,
        address: _Numbers,
        size: _Numbers,
        requested: _Numbers,
        has_requested: _Numbers,
        state: _Numbers,
        stack: _Numbers,
    ) -> None: ...
    def annotations(
        self, device: _Numbers, time: _Numbers, stage: _Numbers, name: _Numbers
    ) -> None: ...
