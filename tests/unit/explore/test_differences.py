"""Tests of explore/differences.py: differences match `memreplay diff`."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.selecting.selection import Filters
from memreplay.explore.differences import (
    Call,
    DifferenceRows,
    Differences,
    DifferenceTree,
)
from memreplay.explore.explored import Explored
from memreplay.render.units import signed_size, size
from memreplay.snapshot.model import When
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"


def both() -> tuple[Explored, Explored]:
    return (
        Explored(mr.open(EXAMPLES / "transformer_step.pkl.gz")),
        Explored(mr.open(EXAMPLES / "transformer_deeper.pkl.gz")),
    )


@pytest.mark.parametrize("by", ["stack", "category", "file", "function"])
@pytest.mark.parametrize("when", [When("peak", 1), When("event", 2000), When("start")])
def test_groups_match_diff(by: str, when: When) -> None:
    base, new = both()
    looks = []
    for explored in (base, new):
        look = replace(explored.first_look(0), view="groups", by=by)
        if when.kind == "event":
            look = replace(look, event=when.value)
        elif when.kind == "start":
            look = replace(look, event=explored.bounds(0)[0])
        looks.append(look)
    rows = Differences(base, new).rows(*looks)
    assert isinstance(rows, DifferenceRows)
    (found,) = mr.diff(base.snap, new.snap, by=by, at=when, top=0).devices
    assert rows.found == list(found.rows)
    for at, row in enumerate(found.rows):
        assert rows.line(at).cells == (
            signed_size(row.change_bytes),
            size(row.base_bytes),
            size(row.new_bytes),
        )


def test_guesses_are_marked() -> None:
    base, new = both()
    looks = [replace(one.first_look(0), view="groups", by="category") for one in (base, new)]
    rows = Differences(base, new).rows(*looks)
    assert isinstance(rows, DifferenceRows)
    guessed = [at for at, row in enumerate(rows.found) if row.guessed]
    assert [rows.found[at].label for at in guessed] == ["optimizer state", "parameters"]
    for at in range(len(rows)):
        line, shown = rows.line(at), rows.shown(at)
        assert line.text.endswith("  (partly guessed)") == (at in guessed)
        assert (("category", "partly guessed") in shown.pairs) == (at in guessed)
        assert "  ".join(one.function for one in line.places) == line.name


@pytest.mark.parametrize("inverted", [False, True])
def test_differences_in_the_tree_add_up(inverted: bool) -> None:
    base, new = both()
    differences = Differences(base, new)
    looks = [replace(one.first_look(0), inverted=inverted) for one in (base, new)]
    rows = differences.rows(*looks)
    assert isinstance(rows, DifferenceTree)
    usages = [
        one.usage(look).bytes_at(look.event) for one, look in zip((base, new), looks, strict=True)
    ]
    top = rows.root.calls.values()
    assert [sum(one.before for one in top), sum(one.after for one in top)] == usages
    waiting = list(top)
    while waiting:
        call = waiting.pop()
        waiting += call.calls.values()
        assert sum(one.before for one in call.calls.values()) <= call.before
        assert sum(one.after for one in call.calls.values()) <= call.after
        assert call.differs or not call.change
    differences.open.update(dict.fromkeys(rows.all_keys(), True))
    rows.unfold()
    assert len(rows) == sum(call.differs for call in all_of(rows))
    for at in range(len(rows)):
        assert rows.line(at).text
        assert rows.shown(at).title
    levels = [rows.line(at).level for at in range(len(rows))]
    assert all(b <= a + 1 for a, b in pairwise(levels))
    first = [abs(one.change) for one, level in zip(rows.visible, levels, strict=True) if not level]
    assert first == sorted(first, reverse=True)


def all_of(rows: DifferenceTree) -> list[Call]:
    found: list[Call] = []
    waiting = list(rows.root.calls.values())
    while waiting:
        call = waiting.pop()
        found.append(call)
        waiting += call.calls.values()
    return found


def test_same_snapshot_has_no_differences() -> None:
    base = Explored(mr.open(EXAMPLES / "two_gpus.pkl.gz"))
    new = Explored(mr.open(EXAMPLES / "two_gpus.pkl.gz"))
    look = base.first_look(0)
    for view in ("tree", "groups"):
        rows = Differences(base, new).rows(*[replace(look, view=view)] * 2)
        assert len(rows) == 0
        assert rows.note == "both hold the same"


def test_filters_apply_to_both_snapshots() -> None:
    base, new = both()
    filters = Filters(include=("forward",))
    looks = [replace(one.first_look(0), view="groups", filters=filters) for one in (base, new)]
    rows = Differences(base, new).rows(*looks)
    (found,) = mr.diff(base.snap, new.snap, filters=filters, top=0).devices
    assert isinstance(rows, DifferenceRows)
    events = found.base.event_index, found.new.event_index
    looks = [replace(look, event=event) for look, event in zip(looks, events, strict=True)]
    again = Differences(base, new).rows(*looks)
    assert isinstance(again, DifferenceRows)
    assert again.found == list(found.rows)
