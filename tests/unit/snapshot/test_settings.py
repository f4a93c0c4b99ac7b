"""settings: any allocator settings in a file give valid rules for block sizes."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.engine.replay import _measures
from memreplay.snapshot.settings import STEPS, BlockRules, block_rules
from tests.allocator_strategies import SETTINGS

NONE = (0,) * STEPS


def test_empty_settings_are_the_defaults() -> None:
    assert block_rules({}) == BlockRules(NONE, -1, False)
    assert STEPS == _measures.DIVISION_STEPS


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_written_by_pytorch_are_read(name: str) -> None:
    made = SETTINGS[name]
    limit = -1 if made.max_split_size is None else made.max_split_size
    want = BlockRules(made.roundup_power2_divisions, limit, made.expandable_segments)
    assert block_rules(made.to_dict()) == want


@pytest.mark.parametrize(
    "found, want",
    [
        (4, (4,) * 16),
        ([4, 8], (4, 8, *NONE[2:])),
        (list(range(20)), tuple(range(16))),
        ({"1": 4, "1024": 8}, (4, *NONE[1:10], 8, *NONE[11:])),
        ({"32768": 2}, (*NONE[1:], 2)),
        ({"65536": 2, "0": 2, "-1": 2, "x": 2, "": 2, "9" * 30: 2}, NONE),
        ({"9" * 5000: 2, "1" * 5000: 2}, NONE),  # longer than the integers Python parses
        ({"3": 2}, (0, 2, *NONE[2:])),  # read as the next lower power of two
        ({1: 2}, NONE),
        (-4, NONE),
        (2.9, (2,) * 16),
        (2**80, (2**62,) * 16),
        (float("inf"), (2**62,) * 16),
        (float("nan"), NONE),
        (True, NONE),
        (None, NONE),
        ("4", NONE),
        ([None, "4", [], {}, 3], (0, 0, 0, 0, 3, *NONE[5:])),
        ({}, NONE),
    ],
    ids=repr,
)
def test_any_recorded_divisions_are_read_or_ignored(found: Any, want: tuple[int, ...]) -> None:
    assert block_rules({"roundup_power2_divisions": found}).divisions == want


@pytest.mark.parametrize(
    "found, want",
    [
        (-1, -1),
        (0, 0),
        (20 * 2**20, 20 * 2**20),
        (2**64 - 1, 2**62),
        (-(2**80), -(2**62)),
        (None, -1),
        ("20", -1),
        (False, -1),
        (float("-inf"), -(2**62)),
    ],
    ids=repr,
)
def test_any_recorded_split_limit_is_read_or_ignored(found: Any, want: int) -> None:
    assert block_rules({"max_split_size": found}).max_split_bytes == want


@pytest.mark.parametrize("found, want", [(True, True), (False, False), (1, True), (None, False)])
def test_any_recorded_expandable_flag_is_read_or_ignored(found: Any, want: bool) -> None:
    assert block_rules({"expandable_segments": found}).expandable is want
