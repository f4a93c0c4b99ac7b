"""record: what every result is, and what of it JSON has."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.at.find import at_report
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.steps.find import steps_report
from memreplay.commands.summary.find import summarize
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import Coded, Frame, Group, When
from memreplay.snapshot.record import Record


class Told(Coded, frozen=True):
    """A row with a stack."""

    text_only = ("width",)

    rows: int
    width: int = 3


class Whole(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.whole/1"):
    """A report."""

    text_only = ("top",)

    pool: tuple[int, int] | None = None
    parts: tuple[Told, ...]
    tree: int | UnsetType = UNSET
    names: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    top: int = 5


TOLD = Told(7, label="a\udc80", frames=(Frame("f", "é.py", 1),), user=(0,))
WHOLE = Whole(parts=(TOLD,), pool=(0, 1), names={"x": ("y",)})


def test_json_is_the_fields_in_their_order() -> None:
    text = render_json(WHOLE, indent=None)
    assert text == (
        '{"schema": "memreplay.whole/1", "pool": [0, 1], "parts": [{"rows": 7,'
        ' "label": "a\\udc80", "user": [0], "libraries": [],'
        ' "frames": [{"function": "f", "file": "\\u00e9.py", "line": 1}]}],'
        ' "names": {"x": ["y"]}}'
    )
    assert render_json(WHOLE) == json.dumps(json.loads(text), indent=2)


def test_a_field_that_is_not_always_there() -> None:
    assert json.loads(render_json(replace(WHOLE, tree=0)))["tree"] == 0
    assert "tree" not in json.loads(render_json(WHOLE))


def test_what_no_json_can_say() -> None:
    group = Group(bytes=1, count=1, share=float("nan"), label="x")
    with pytest.raises(ValueError, match="JSON"):
        render_json(group)


def test_records_are_values() -> None:
    with pytest.raises(AttributeError):
        WHOLE.top = 7  # type: ignore[misc]
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=12)))
    for one in (
        TOLD,
        summarize(snap),
        peak_report(snap, by="category,file", peaks=2),
        at_report(snap, [When("end")], listed=True),
        steps_report(snap),
        leaks_report(snap),
    ):
        assert pickle.loads(pickle.dumps(one)) == one
        assert copy.copy(one) == copy.deepcopy(one) == one
    assert len({TOLD, replace(TOLD), replace(TOLD, rows=8)}) == 2
    assert len({Filters(), Filters(include=("a",))}) == 2


def test_columns_are_compared_by_identity() -> None:
    live = mr.open(leaky.snapshot_bytes(leaky.Options(steps=3))).replay().live_at(event=9)
    assert live == live
    assert live != replace(live)
    assert hash(live) != hash(replace(live))
    assert pickle.loads(pickle.dumps(live)).size.tolist() == live.size.tolist()
