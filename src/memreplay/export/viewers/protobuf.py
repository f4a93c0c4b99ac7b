"""Writes protobuf's wire format: the little of it that traces and profiles need."""

from __future__ import annotations

from collections.abc import Iterable


def varint(value: int) -> bytes:
    """An integer of 64 bits, seven of them a byte; one below 0 as its two's complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field of any integer type but sint and fixed."""
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes) -> bytes:
    """A field of bytes, or of a message that is written already."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A field of text; `?` stands for what UTF-8 cannot say."""
    return data(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field of many integers."""
    return data(field, b"".join(map(varint, values)))
