"""Tests of json_values.py, and of strict JSON."""

from __future__ import annotations

import json
import math

import pytest

from memreplay.render.strict_json import to_json
from memreplay.snapshot.json_values import json_safe


def test_values_unsupported_by_json_are_replaced() -> None:
    value = {
        "nan": math.nan,
        "inf": [math.inf],
        "bytes": b"x",
        "pair": (1, 2.5),
        3: True,
        None: None,
        (1, 2): "tuple",
        "huge": 2**20_000,
        "min": -(2**63),
    }
    safe = json_safe(value)
    assert isinstance(safe, dict)
    assert safe.pop("huge").startswith("0x1000")
    assert safe == {
        "nan": None,
        "inf": [None],
        "bytes": "<bytes>",
        "pair": [1, 2.5],
        "3": True,
        "null": None,
        "[1, 2]": "tuple",
        "min": -(2**63),
    }


def test_cycles_and_expansion_bombs_terminate() -> None:
    cycle: list[object] = []
    cycle += [cycle, cycle]
    assert len(to_json(json_safe(cycle), indent=None)) < 10_000
    bomb: object = []
    for _ in range(50):
        bomb = [bomb] * 50
    assert len(to_json(json_safe(bomb), indent=None)) < 100_000
    assert len(to_json(json_safe({n: n for n in range(10**6)}), indent=None)) < 200_000


def test_nesting_past_the_limit_does_not_recurse() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    text = to_json(json_safe(deep), indent=None)
    while isinstance(deep, list):  # some versions of Python also free deep lists by recursion
        deep = deep.pop()
    assert text == "[" * 8 + '"..."' + "]" * 8


def test_surrogates_are_escaped() -> None:
    assert to_json(json_safe("a\udc80"), indent=None) == r'"a\udc80"'
    assert json.loads(to_json("a\udc80", indent=2)) == "a\udc80"


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(math.nan, indent=None)
