"""Convert any value from a file to one that JSON supports."""

from __future__ import annotations

import json
import math

_MAX_DEPTH = 8
_MAX_VALUES = 10_000
_MAX_INT_BITS = 64


def json_safe(value: object) -> object:
    """Convert any value from a file (for example allocator settings) to one that JSON supports.

    Keys become strings, NaN and infinities become null, integers beyond 64 bits become hexadecimal
    strings, and other types become their name in angle brackets. Values nested deeper than 8 levels
    become "...", and anything after 10,000 values is dropped, because shared or cyclic objects
    could expand without limit.
    """
    return _safe(value, _MAX_DEPTH, [_MAX_VALUES])


def _safe(value: object, depth: int, left: list[int]) -> object:
    left[0] -= 1
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_INT_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (dict, list, tuple)):
        if depth == 0:
            return "..."
        if isinstance(value, dict):
            return {
                _key(key): _safe(item, depth - 1, left)
                for key, item in value.items()
                if left[0] >= 0
            }
        return [_safe(item, depth - 1, left) for item in value if left[0] >= 0]
    return f"<{type(value).__name__}>"


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    safe = _safe(key, 1, [16])
    return safe if isinstance(safe, str) else json.dumps(safe)
