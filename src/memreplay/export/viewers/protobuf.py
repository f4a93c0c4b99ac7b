"""Encode protobuf's wire format, as far as traces and profiles need it."""

from __future__ import annotations

from collections.abc import Iterable


def varint(value: int) -> bytes:
    """Encode a 64-bit integer, seven bits per byte; negatives as two's complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode a field of any integer type except sint and fixed."""
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes) -> bytes:
    """Encode a bytes field or an already encoded message."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """Encode a text field; characters that UTF-8 can't encode become `?`."""
    return data(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Encode a packed integer field."""
    return data(field, b"".join(map(varint, values)))
