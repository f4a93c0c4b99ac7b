"""Tests of commands/watch/text.py."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from memreplay.analysis.steps.records import StepAt
from memreplay.commands.watch.result import Largest, WatchedDevice, WatchLine, WatchTotals
from memreplay.commands.watch.text import Columns, totals_text
from memreplay.render.fit import cell_width

GIB = 1 << 30
DEVICE = WatchedDevice(
    device=0,
    exactness="exact",
    peak_bytes=38 * GIB,
    peak_event=5,
    peak_us=1,
    start_us=0,
    reserved_peak_bytes=40 * GIB,
    change_bytes=-(GIB // 2),
    changed_since="run/a.pkl",
    categories_source="guessed",
    largest=Largest("category", "activations", 19 * GIB, 0.5),
    annotation=None,
    step=StepAt(
        annotation="ProfilerStep",
        found_by="annotation",
        number=3,
        of=10,
        inside=True,
        by="",
        name="",
    ),
    over_limits=(),
    trusted=True,
    reasons=(),
)
LINE = WatchLine(
    kind="snapshot",
    time_us=1_760_000_000_000_000,
    folder="run",
    file="run/snap.step-100.pickle",
    file_bytes=9,
    rank=None,
    rewritten=False,
    measure="requested",
    over_budget=False,
    error=None,
    exit_code=0,
    devices=(DEVICE,),
    name="snap.step-100.pickle",
)


def shown(columns: Columns, line: WatchLine = LINE) -> list[str]:
    return [text for text, _ in columns.rows(line)]


def test_short_columns_fit_80_characters() -> None:
    columns = Columns(80, "requested")
    assert columns.header == (
        "UTC       file              dev  requested    reserved       change  largest"
    )
    assert shown(columns) == [
        "08:53:20  …step-100.pickle    0   38.0 GiB    40.0 GiB   -512.0 MiB  activations"
    ]


def test_wide_terminals_show_more_columns() -> None:
    columns = Columns(160, "requested")
    (row,) = shown(columns)
    assert row.startswith("10-09 08:53:20  snap.step-100.pickle ")
    assert row.endswith("  3 of 10       activations 19.0 GiB (50.0%)")


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 119, 120, 160, 250])
def test_columns_are_aligned_and_lines_fit_the_width(width: int) -> None:
    columns = Columns(width, "allocated")
    widest = replace(
        DEVICE,
        device=127,
        peak_bytes=1023 * GIB,
        reserved_peak_bytes=1023 * GIB,
        change_bytes=-1023 * GIB,
        largest=Largest("category", "optimizer state (likely)" * 3, 1023 * GIB, 1.0),
        over_limits=("max_peak", "max_reserved"),
    )
    line = replace(LINE, name="ä" * 30 + "/名" * 200 + ".pkl", devices=(DEVICE, widest))
    least, most = (text for text in shown(columns, line))
    for text in (columns.header, least, most, *shown(columns)):
        assert cell_width(text) <= max(width, 48)
    ends = columns.header.index("allocated") + len("allocated")
    for name, n_bytes in ((least, "38.0 GiB"), (most, "1023.0 GiB")):
        at = name.index(n_bytes)
        assert cell_width(name[:at]) + len(n_bytes) == ends
    assert ("largest" in columns.header) == (width >= 79)
    assert ("change" in columns.header) == (width >= 79)
    assert ("step" in columns.header) == (width >= 120)


DOUBT = ("unmatched_frees",)


@pytest.mark.parametrize(
    "changed, peak, reserved, level",
    [
        ({}, "38.0 GiB ", "40.0 GiB ", "plain"),
        ({"over_limits": ("max_peak",), "reasons": DOUBT}, "38.0 GiB!", "40.0 GiB ", "over"),
        ({"over_limits": ("max_reserved",)}, "38.0 GiB ", "40.0 GiB!", "over"),
        ({"exactness": "estimated"}, "38.0 GiB~", "40.0 GiB ", "plain"),
        ({"exactness": "estimated", "reasons": DOUBT}, "38.0 GiB?", "40.0 GiB ", "plain"),
        ({"reasons": ("recording_begun_late",)}, "38.0 GiB ", "40.0 GiB ", "plain"),
        # An earlier, higher peak may have been lost.
        ({"trusted": False, "reasons": ("ring_overflow",)}, "38.0 GiB+", "40.0 GiB ", "plain"),
    ],
)
def test_values_over_budget_are_marked(
    changed: dict[str, Any], peak: str, reserved: str, level: str
) -> None:
    columns = Columns(100, "held")
    one = replace(DEVICE, **changed)
    ((text, found),) = columns.rows(replace(LINE, devices=(one,)))
    assert (peak in text, reserved in text, found) == (True, True, level)


def test_reserved_memory_has_a_single_column() -> None:
    columns = Columns(100, "reserved")
    assert columns.header.count("reserved") == 1
    over = replace(DEVICE, over_limits=("max_reserved",))
    (row,) = shown(columns, replace(LINE, devices=(over,)))
    assert "38.0 GiB!" in row
    assert "40.0 GiB" not in row


def test_unreadable_file_shows_its_error() -> None:
    columns = Columns(80, "held")
    line = replace(LINE, kind="not_read", devices=(), error="cut\x1b[31m off", name="a\nb.pkl")
    ((text, level),) = columns.rows(line)
    assert text == "08:53:20  a\\nb.pkl          not read: cut\\x1b[31m off"
    assert level == "warning"
    ((text, _),) = columns.rows(replace(LINE, devices=()))
    assert text.endswith("it has no recorded memory")


def test_unknown_values_are_dashes() -> None:
    columns = Columns(160, "held")
    bare = replace(DEVICE, largest=None, step=None, change_bytes=None)
    (row,) = shown(columns, replace(LINE, devices=(bare,)))
    assert row.split()[-3:] == ["-", "-", "-"]


def test_impossible_file_times_are_question_marks() -> None:
    for time_us in (-(2**70), 2**70):
        (row,) = shown(Columns(80, "held"), replace(LINE, time_us=time_us))
        assert row.startswith("?         ")


TOTALS = WatchTotals(
    rank_count=0,
    ended="signal",
    snapshot_count=1,
    over_budget_count=0,
    not_read_count=0,
    peak_bytes=GIB,
    peak_file="run/a\n.pkl",
    peak_device=1,
)


def test_totals_are_one_line() -> None:
    words = "1 snapshot, highest peak 1.0 GiB in run/a\\n.pkl (device 1)"
    assert totals_text(TOTALS, limited=False) == words
    assert totals_text(TOTALS, limited=True) == f"{words}, none above the limit"
    some = replace(TOTALS, snapshot_count=1200, over_budget_count=3, not_read_count=2)
    assert totals_text(some, limited=True) == (
        f"1,200 snapshots{words[len('1 snapshot') :]}, 3 above the limit, 2 not read"
    )
    none = replace(TOTALS, snapshot_count=0, peak_bytes=None, peak_file=None)
    assert totals_text(none, limited=False) == "no snapshot"


def test_long_paths_are_cut_to_rank_and_dump() -> None:
    name = "step_000000000030_exit/000012_step_30.pickle"
    line = replace(LINE, name=name, rank=12)
    assert shown(Columns(80, "requested"), line)[0].startswith("08:53:20  …30_exit rank 12    0")
    assert f"  {name}  " in shown(Columns(160, "requested"), line)[0]


def test_totals_count_the_ranks() -> None:
    assert totals_text(replace(TOTALS, snapshot_count=6, rank_count=2), limited=False).startswith(
        "6 snapshots of 2 ranks, highest peak"
    )
