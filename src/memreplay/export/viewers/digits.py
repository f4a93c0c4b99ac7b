"""Format columns of numbers as rows of bytes (decimals and varints), a column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from memreplay.engine.query._vectors import Vector, chosen, vector

ROWS = 1 << 13  # rows per chunk of text; more don't fit in the CPU's cache
_FOUR = 10_000
_WORD = 4

# The same in each row, or the rows' bytes, column by column.
Part = bytes | list[bytearray]


def decimal(values: Vector) -> list[bytearray]:
    """Format signed numbers as decimals, with zero bytes as padding."""
    padded, bare, last = (place * _FOUR for place in range(3))
    # Count down from 0, because 2**63 has no positive int64.
    rest = values.lower(-values)
    columns: list[bytearray] = []
    while True:
        left = (rest + (_FOUR - 1)) // _FOUR
        more = left != 0
        ends = chosen(more, padded, bare if columns else last)
        columns = _columns(_table()[left * _FOUR - rest + ends]) + columns
        rest = left
        if not more.any():
            break
    if values.min(initial=0) < 0:
        columns.insert(0, bytearray(((values < 0) * ord("-")).as_format("B")))
    return columns


def fraction(values: Vector) -> list[bytearray]:
    """Format 0 to 999 as a point and three digits."""
    return _columns(_fractions()[values])


def lines(rows: int, parts: Sequence[Part]) -> bytes:
    """Join literals and columns of `decimal` and `fraction` row by row, dropping zero bytes."""
    return bytes(packed(rows, parts).translate(None, b"\0"))


def packed(rows: int, parts: Sequence[Part]) -> bytearray:
    """Place the parts of each row side by side."""
    row = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
    out = bytearray(row * rows)
    at = 0
    for part in parts:
        if not isinstance(part, bytes):
            for i, column in enumerate(part, at):
                out[i :: len(row)] = column
        at += len(part)
    return out


def varints(values: Vector) -> list[bytearray]:
    """Encode 64-bit numbers as protobuf varints, padded to the longest."""
    left = values.as_format("Q")
    width = max(1, -(-left.max(initial=0).bit_length() // 7))
    planes = [left >> 7 * at | (0x80 if at < width - 1 else 0) for at in range(width)]
    return [bytearray(plane.as_format("B")) for plane in planes]


@cache
def _table() -> Vector:
    """Return the numbers 0 to 9,999 as four characters each.

    First with leading zeros, then without, where 0 is empty, and then without, where 0 is a digit.
    """
    padded = b"".join(b"%04d" % number for number in range(_FOUR))
    last = b"".join((b"%d" % number).rjust(_WORD, b"\0") for number in range(_FOUR))
    return _words(padded + bytes(_WORD) + last[_WORD:] + last)


@cache
def _fractions() -> Vector:
    return _words(b"".join(b".%03d" % number for number in range(1000)))


def _columns(words: Vector) -> list[bytearray]:
    """Split words into columns of characters."""
    text = bytearray(words)
    return [text[i::_WORD] for i in range(_WORD)]


def _words(text: bytes) -> Vector:
    return vector(memoryview(text).cast("I"))
