"""Mutators that don't know the format."""

from __future__ import annotations

import random
import re

EDGES = sorted(
    {0, 1, -1, 2, 10, 100, 1000, 1001, 1024, 1025, 4096}
    | {
        sign * (1 << bits) + by
        for bits in (7, 8, 15, 16, 23, 24, 26, 27, 28, 30, 31, 32, 40, 47, 48, 61, 62, 63, 64)
        for by in (-1, 0, 1)
        for sign in (1, -1)
    }
)
DIGITS = re.compile(rb"\d+")


def place(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def span(rng: random.Random, data: bytes, most: int = 64) -> tuple[int, int]:
    """Return the bounds of a piece of the data, usually a short one."""
    start = place(rng, data)
    length = rng.randrange(1, most if rng.random() < 0.8 else len(data) + 2)
    return start, min(len(data), start + length)


def flip_bit(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def set_byte(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    if out:
        value = rng.choice(out) if rng.random() < 0.5 else rng.randrange(256)
        out[rng.randrange(len(out))] = value
    return bytes(out)


def set_integer(rng: random.Random, data: bytes) -> bytes:
    """Insert an extreme integer, in binary or in place of digits."""
    value = rng.choice(EDGES)
    if rng.random() < 0.3:
        found = list(DIGITS.finditer(data))
        if found:
            at = rng.choice(found)
            return data[: at.start()] + b"%d" % value + data[at.end() :]
    width = rng.choice((1, 2, 4, 8))
    written = (value % (1 << 8 * width)).to_bytes(width, rng.choice(("little", "little", "big")))
    at_byte = place(rng, data)
    return data[:at_byte] + written + data[at_byte + width :]


def insert(rng: random.Random, data: bytes) -> bytes:
    at = place(rng, data)
    return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: place(rng, data)]


def cut_front(rng: random.Random, data: bytes) -> bytes:
    return data[place(rng, data) :]


def remove(rng: random.Random, data: bytes) -> bytes:
    start, stop = span(rng, data)
    return data[:start] + data[stop:]


def duplicate(rng: random.Random, data: bytes) -> bytes:
    start, stop = span(rng, data)
    times = 1 if rng.random() < 0.8 else rng.choice((2, 10, 100, 1000))
    times = min(times, 1 + (64 << 10) // max(1, stop - start))
    at = stop if rng.random() < 0.7 else place(rng, data)
    return data[:at] + data[start:stop] * times + data[at:]


def move(rng: random.Random, data: bytes) -> bytes:
    start, stop = span(rng, data)
    rest = data[:start] + data[stop:]
    at = place(rng, rest)
    return rest[:at] + data[start:stop] + rest[at:]


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Join the front of one input to the back of the other, or insert a piece of the other."""
    if rng.random() < 0.5:
        return data[: place(rng, data)] + other[place(rng, other) :]
    start, stop = span(rng, other)
    at = place(rng, data)
    return data[:at] + other[start:stop] + data[at:]


SIMPLE = (flip_bit, set_byte, set_integer, insert, cut, cut_front, remove, duplicate, move)
# Overwrite in place, so the bytes that follow don't move.
GENTLE = (flip_bit, flip_bit, set_byte, set_byte, set_integer)


def mutated(rng: random.Random, data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = rng.choice(SIMPLE if rng.random() < 0.5 else GENTLE)(rng, data)
    return data
