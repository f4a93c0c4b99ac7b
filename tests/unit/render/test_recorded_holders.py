"""The table of the Python objects that held the memory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.render.plain import render_plain
from memreplay.render.recorded_holders import holder_blocks
from memreplay.snapshot.recorded_holders import (
    HeldBy,
    HeldPinned,
    HeldPool,
    RecordedHolders,
)
from tests.unit.snapshot.test_recorded_holders import LIST, NOTES


def text(found: RecordedHolders | None, width: int = 120) -> str:
    return render_plain(tuple(holder_blocks(found)), width=width)


def only(one: HeldBy) -> RecordedHolders:
    return replace(NOTES, groups=(one,), other_groups=0, other_bytes=0, total_bytes=one.bytes)


def test_rows_add_up_to_the_total() -> None:
    assert text(NOTES).splitlines() == [
        "4.0 MiB in use when this was written, by holder",
        "",
        "  bytes  share  count  held by",
        "3.0 MiB  75.0%      6  losses[…] (list) in train()  /home/ana/train.py:12",
        "                         2.0 MiB saved for a backward pass: GeluBackward0",
        "1.0 MiB  25.0%         2 more holders",
    ]


def test_private_pools_are_below() -> None:
    pool = HeldPool(
        kind="variable",
        name="graph",
        function="train",
        file="/home/ana/train.py",
        line=12,
        type_name="CUDAGraph",
        bytes=2 << 20,
        pool=(1, 0),
    )
    unknown = replace(pool, kind="unknown", name="", function="", file="", line=0, bytes=1 << 20)
    lines = text(replace(NOTES, pools=(pool, replace(unknown, pool=(0, 3))))).splitlines()
    assert lines[-3:] == [
        "not in use  pool            held by",
        "   2.0 MiB  graph pool 1:0  graph (CUDAGraph) in train()  /home/ana/train.py:12",
        "   1.0 MiB  user pool 0:3   C++ code, or not found",
    ]


def test_pinned_memory_is_below() -> None:
    pinned = HeldPinned(
        kind="variable",
        name="batches[…]",
        function="train",
        file="/home/ana/train.py",
        line=12,
        type_name="list",
        bytes=3 << 20,
        count=3,
    )
    assert text(replace(NOTES, pinned=(pinned,))).splitlines()[-2:] == [
        "pinned on the host  count  held by",
        "           3.0 MiB      3  batches[…] (list) in train()  /home/ana/train.py:12",
    ]


def test_nothing_is_shown_without_notes_or_memory() -> None:
    assert text(None) == ""
    assert text(replace(NOTES, groups=(), other_groups=0, other_bytes=0, total_bytes=0)) == ""


@pytest.mark.parametrize(
    "kind, name, type_name, words",
    [
        ("parameters", "model", "Net", "parameters of model (Net) in train()"),
        ("parameters", "", "Net", "parameters of … (Net) in train()"),
        ("gradients", "model", "Net", "gradients of model (Net) in train()"),
        ("optimizer state", "opt", "Adam", "state of opt (Adam) in train()"),
        ("variable", "loss", "Tensor", "loss in train()"),
        ("exception", "e → traceback → f()", "ValueError", "e → traceback → f() (ValueError) in"),
        ("cycle", "Node", "", "reference cycle of Node"),
        ("cycle", "", "", "reference cycle"),
        ("unknown", "", "", "C++ code, or not found"),
        ("unknown", "Cache", "", "Cache, of a function or C++ code"),
    ],
)
def test_each_kind_has_its_words(kind: str, name: str, type_name: str, words: str) -> None:
    one = replace(LIST, kind=kind, name=name, type_name=type_name)
    assert f"  {words}" in text(only(one))


def test_details_are_below() -> None:
    assert "a small view keeps the whole allocation" in text(only(replace(LIST, small_views=1)))
    assert "small views keep the whole allocation" in text(only(replace(LIST, small_views=3)))
    cycle = replace(LIST, kind="cycle", name="Node")
    assert "gc.collect() would free it" in text(only(cycle))
    assert "stopped looking" in text(replace(NOTES, complete=False))


def test_hostile_names_stay_in_their_line() -> None:
    one = replace(LIST, name="x\n\x1b[31m" + "y" * 4000, function="f\r", type_name="\u202eT")
    shown = text(only(one))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert max(map(len, shown.splitlines())) <= 120
