"""Tests of analysis/comparing/rows.py: rows add up, and groups omitted from a baseline aren't
reported as new.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.records import Side
from memreplay.analysis.comparing.rows import compared
from memreplay.analysis.comparing.sides import REST, BaselineSide, Scope, Sided, SnapshotSide
from memreplay.snapshot.model import Frame, Group
from tests import build
from tests.allocator_strategies import Recording, recordings


@given(recordings(max_steps=60), recordings(max_steps=60), st.integers(0, 3), st.booleans())
def test_rows_add_up(base: Recording, new: Recording, top: int, exact: bool) -> None:
    before, after = (mr.open(build.dump(one.snapshot)) for one in (base, new))
    assume(before.devices)
    boiled = BaselineSide(baseline_of(before, top=top), "x")
    for device in after.devices:
        if device not in before.devices:
            continue
        theirs = SnapshotSide(after).at(device, Scope("held"))
        for side in (boiled, SnapshotSide(before)):
            ours = side.at(device, Scope("held"))
            rows = compared(ours, theirs, exact=exact, trim=side.trimmed)
            assert sum(row.base_bytes for row in rows) == ours.side.bytes
            assert sum(row.new_bytes for row in rows) == theirs.side.bytes
            assert sum(row.base_count for row in rows) == ours.side.count
            assert sum(row.new_count for row in rows) == theirs.side.count


def side_of(*groups: Group, most: int | None = None) -> Sided:
    n_bytes, count = sum(g.bytes for g in groups), sum(g.count for g in groups)
    side = Side(
        bytes=n_bytes,
        count=count,
        event_index=0,
        time_us=None,
        exactness="exact",
        trusted=True,
        reasons=(),
    )
    return Sided(side, list(groups), most)


def group(name: str, n_bytes: int) -> Group:
    frames = (Frame(name, "model.py", 3), Frame("main", "train.py", 9))
    return Group(
        label=f"{name} model.py:3", bytes=n_bytes, count=1, share=0.0, frames=frames, user=(0, 1)
    )


def test_omitted_groups_make_one_row() -> None:
    base = side_of(
        group("a", 90), group("b", 50), Group(label=REST, bytes=70, count=3, share=0.0), most=50
    )
    new = side_of(group("a", 95), group("c", 40), group("d", 45), group("e", 60))
    rows = {row.label: row for row in compared(base, new, trim=True)}
    assert {label: row.change_bytes for label, row in rows.items()} == {
        "a model.py:3": 5,
        REST: 40 + 45 - 70,
        # e is too large to have been omitted from the base, so b was renamed to e.
        "e model.py:3": 60 - 50,
    }
    assert (rows[REST].base_count, rows[REST].new_count) == (3, 2)


def test_only_groups_too_large_to_be_omitted_are_new() -> None:
    base = side_of(group("a", 90), Group(70, 3, 0.0, label=REST), most=50)
    new = side_of(group("a", 90), group("c", 50), group("d", 51))
    rows = {row.label: row.change_bytes for row in compared(base, new, trim=True)}
    assert rows == {"a model.py:3": 0, REST: 50 - 70, "d model.py:3": 51}
