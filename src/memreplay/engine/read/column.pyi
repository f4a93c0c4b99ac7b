"""Columns: one field of many rows, read-only, not copied, alive as long as their owner."""

from typing import Final, final

from typing_extensions import Buffer, Never

FIELDS: Final[dict[str, dict[str, tuple[int, bytes]]]]

@final
class Column(Buffer):
    """A read-only column of `len(memoryview(column))` numbers of one type."""

    def __init__(self, *args: Never, **kwargs: Never) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Owned:
    """A native buffer behind columns."""

    def __init__(self, *args: Never, **kwargs: Never) -> None: ...
