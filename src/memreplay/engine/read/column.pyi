"""Columns handed out: one field of many rows, read-only, without a copy, alive with its owner."""

from typing import Final, final

from typing_extensions import Buffer, Never

FIELDS: Final[dict[str, dict[str, tuple[int, bytes]]]]

@final
class Column(Buffer):
    """One column: `len(memoryview(column))` numbers of one type, read-only."""

    def __init__(self, *args: Never, **kwargs: Never) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Owned:
    """A native buffer that columns are made of."""

    def __init__(self, *args: Never, **kwargs: Never) -> None: ...
