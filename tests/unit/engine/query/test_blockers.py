"""Groups that keep free memory from being returned, case by case. tests/property/test_blockmap.py
compares them with a slow walk.
"""

from __future__ import annotations

from array import array

import pytest

import memreplay as mr
from memreplay.engine.query import _groups
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import MIB, A, B


def made() -> mr.Replay:
    """Build two segments: the first has two blocks from one group and one from another, the second
    has one.
    """
    builder = SnapshotBuilder().segment_alloc(A, 20 * MIB).segment_alloc(B, 20 * MIB)
    for at, size in ((A, 2), (A + 2 * MIB, 2), (A + 4 * MIB, 2), (B, 4)):
        builder.alloc(at, size * MIB)
    return mr.open(build.dump(builder.build())).replay()


def numbered(found: mr.Replay, *of_events: int) -> _groups.Keys:
    return _groups.row_keys(found.native, array("I", of_events), 0)


def test_every_group_gets_its_share() -> None:
    found = made()
    rows, groups, whole, blocks = found.block_map(5).blockers(numbered(found, 0, 0, 7, 7, 8, 8), 0)
    # Three blocks keep 14 MiB of the first segment from being returned; a single one keeps 16 MiB
    # of the second.
    third = 14 * MIB // 3
    assert rows == [
        (8, 16 * MIB + third, 2, 2, 16 * MIB),
        (7, 2 * third + 2, 2, 1, 0),
    ]
    assert (groups, whole, blocks) == (2, 30 * MIB, 4)
    assert found.block_map(5).blockers(numbered(found, 0, 0, 9, 9, 9, 9), 0)[0] == [
        (9, 30 * MIB, 4, 2, 30 * MIB)
    ]


def test_groups_that_block_nothing_are_left_out() -> None:
    found = made()
    keys = numbered(found, 1, 2, 3, 3, 3, 4)
    keys.find_all()
    rows, *_ = found.block_map(4).blockers(keys, 0)
    assert [row[0] for row in rows] == [3]
    assert found.block_map(-1).blockers(keys, 0) == ([], 0, 0, 0)


def test_top_limits_the_list_but_not_the_sums() -> None:
    found = made()
    keys = numbered(found, 0, 0, 1, 2, 3, 4)
    whole = found.block_map(5).blockers(keys, 0)
    assert [len(found.block_map(5).blockers(keys, top)[0]) for top in (0, 1, 9)] == [4, 1, 4]
    assert found.block_map(5).blockers(keys, 1)[1:] == whole[1:] == (4, 30 * MIB, 4)


def test_invalid_arguments_are_rejected() -> None:
    found, other = made(), made()
    with pytest.raises(ValueError, match="another replay"):
        found.block_map(5).blockers(numbered(other, 0, 0, 1, 2, 3, 4), 0)
    with pytest.raises(TypeError):
        found.block_map(5).blockers(None, 0)  # type: ignore[arg-type]
