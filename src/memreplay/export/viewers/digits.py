"""Format columns of numbers as rows of bytes (decimals and varints), vectorised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 1 << 16  # rows per chunk
_FOUR = 10_000


def decimal(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Format int64 as decimals, with zero bytes as padding. Shape (rows, width), uint8."""
    import numpy as np

    negative = values < 0
    rest = np.where(negative, -values, values).view(np.uint64)  # -2**63 equals its own negative
    groups = max(1, -(-len(str(int(rest.max(initial=0)))) // 4))
    out = np.zeros((len(values), 1 + 4 * groups), dtype=np.uint8)
    table = _table()
    for group in range(groups - 1, -1, -1):
        rest, four = np.divmod(rest, np.uint64(_FOUR))
        out[:, 1 + 4 * group : 5 + 4 * group] = table[four]
    digits = out[:, 1:]
    seen = np.logical_or.accumulate(digits != ord("0"), axis=1)
    seen[:, -1] = True
    digits[~seen] = 0
    out[negative, 0] = ord("-")
    return out


def three(values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Format 0 to 999 as three digits. Shape (rows, 3), uint8."""
    return _table()[values][:, 1:]


def lines(rows: int, parts: Sequence[bytes | NDArray[np.uint8]]) -> bytes:
    """Join literals and columns of `decimal` and `three` row by row, dropping zero bytes."""
    flat = packed(rows, parts).ravel()
    found: bytes = flat[flat != 0].tobytes()
    return found


def packed(rows: int, parts: Sequence[bytes | NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Place the parts of each row side by side. Shape (rows, width), uint8."""
    import numpy as np

    columns = [
        np.broadcast_to(np.frombuffer(part, dtype=np.uint8), (rows, len(part)))
        if isinstance(part, bytes)
        else part
        for part in parts
    ]
    return np.concatenate(columns, axis=1)


def varints(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Encode int64 or uint64 as protobuf varints, padded to the longest. Shape (rows, width),
    uint8.
    """
    import numpy as np

    left = values.view(np.uint64).copy()
    width = max(1, -(-int(left.max(initial=0)).bit_length() // 7))
    out = np.empty((len(values), width), dtype=np.uint8)
    for at in range(width):
        out[:, at] = (left & np.uint64(0x7F)) | np.uint64(0x80 if at < width - 1 else 0)
        left >>= np.uint64(7)
    return out


def _table() -> NDArray[np.uint8]:
    """Return the numbers 0 to 9,999 as four digits each."""
    import numpy as np

    numbers = np.arange(_FOUR)
    powers = np.array([1000, 100, 10, 1])
    found: NDArray[np.uint8] = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    return found
