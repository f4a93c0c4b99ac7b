"""modules_report: the sums and peaks of modules match those computed from all live allocations in
plain Python.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.modules.find import COLUMNS, NOT_RECORDED, modules_report
from memreplay.commands.modules.result import ModuleBytes, ModulesSort
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.model import When
from tests import oracle_modules, views
from tests.build import SnapshotBuilder
from tests.noted import Kind, noted_traces, with_notes

CATEGORIES = {name: column for column, names in COLUMNS.items() for name in names}
UP: Kind = ("activations", "forward", "GPT.h.0.up")
WEIGHT: Kind = ("parameters", "start", "GPT.h.0.up")
AGAIN: Kind = ("activations", "recomputation", "GPT.h.0")
GRADIENT: Kind = ("gradients", "backward", "GPT.h.0.up")
LOSS: Kind = ("temporary", "forward", "")


def rows_of(report: Any, device: int = 0) -> dict[str | None, ModuleBytes]:
    (found,) = (one for one in report.devices if one.device == device)
    rows = {one.module: one for one in found.modules}
    assert len(rows) == len(found.modules)
    return rows


@given(noted_traces(), st.integers(-1, 25))
def test_report_matches_the_oracle(snapshot: Any, event: int) -> None:
    snap = views.opened(snapshot)
    for device in snap.devices:
        event = min(event, snap.trace_events(device) - 1)
        report = modules_report(snap, device=device, at=When("event", event), top=0)
        (found,) = report.devices
        live, unknown = oracle_modules.modules_at(snapshot, device, event)
        peaks = oracle_modules.peaks(snapshot, device)
        rows = rows_of(report, device)
        held = {name for name, row in live.items() if row["total"]}
        assert set(rows) == held | {name for name, _ in peaks}
        for name, row in rows.items():
            mine = live.get(name, {})
            expected = dict.fromkeys(COLUMNS, 0)
            for category, n_bytes in mine.items():
                if category not in ("total", "own"):
                    expected[CATEGORIES.get(category, "other")] += n_bytes
            assert {one: getattr(row, f"{one}_bytes") for one in COLUMNS} == expected
            assert (row.total_bytes, row.own_bytes) == (mine.get("total", 0), mine.get("own", 0))
            for one in ("forward", "backward"):
                most, at = peaks.get((name, one), (0, None))
                assert getattr(row, f"peak_{one}_bytes") == most
                assert getattr(row, f"peak_{one}_event") == at
        # The measure is reported as exact.
        assert found.unknown_bytes == unknown
        assert sum(one.total_bytes for one in found.modules if one.depth == 1) == found.live_bytes
        assert sum(one.own_bytes for one in found.modules) == found.live_bytes


@given(noted_traces(max_devices=1), st.integers(0, 4), st.integers(0, 5), st.data())
def test_limits_keep_the_largest_modules(
    snapshot: Any, depth: int, top: int, data: st.DataObject
) -> None:
    snap = views.opened(snapshot)
    sort: ModulesSort = data.draw(
        st.sampled_from(("total", "activations", "peak-forward", "module"))
    )
    whole = modules_report(snap, depth=depth, sort=sort, top=0)
    cut = modules_report(snap, depth=depth, sort=sort, top=top)
    all_of_all = modules_report(snap, top=0).devices
    for full, part, deep in zip(whole.devices, cut.devices, all_of_all, strict=True):
        every = {one.module: one for one in deep.modules}
        assert full.modules_total == part.modules_total
        named = [one for one in full.modules if one.module is not None]
        assert len(named) == full.modules_total
        assert all(every[one.module] == one for one in full.modules)
        assert all(one.depth <= depth or not depth for one in full.modules)
        kept = [one for one in part.modules if one.module is not None]
        assert len(kept) == (min(top, len(named)) if top else len(named))
        key = "total_bytes" if sort == "module" else f"{sort.replace('-', '_')}_bytes"
        left = [getattr(one, key) for one in named if one not in kept]
        assert (
            max(left, default=0) <= min((getattr(one, key) for one in kept), default=0) or not kept
        )
        # Each row comes after its parent.
        open_now: list[str] = []
        for one in kept:
            open_now = open_now[: one.depth - 1]
            assert one.module is not None
            assert len(open_now) == one.depth - 1
            assert all(one.module.startswith(name + ".") for name in open_now)
            open_now.append(one.module)


@given(noted_traces(max_devices=1), st.integers(0, 20))
def test_range_has_the_same_rows(snapshot: Any, first: int) -> None:
    from tests import build

    whole = views.opened(snapshot)
    device = next(iter(whole.devices), -1)
    if device < 0 or first >= whole.trace_events(device):
        return
    part = mr.open(build.dump(snapshot), start=first)
    when = When("event", first)
    names = [*(f"{one}_bytes" for one in COLUMNS), "total_bytes", "own_bytes", "module"]
    live = [
        [
            {name: getattr(one, name) for name in names}
            for one in modules_report(snap, at=when, top=0, device=device).devices[0].modules
            if one.total_bytes
        ]
        for snap in (whole, part)
    ]
    assert sorted(live[0], key=str) == sorted(live[1], key=str)


def example() -> Any:
    """Build a weight, an activation, a loss, a gradient and a recomputed activation."""
    builder = SnapshotBuilder().alloc(512, 400, frames=[views.FORWARD])
    builder.alloc(1024, 1000, frames=[views.FORWARD]).alloc(4096, 30).free(4096, 30)
    builder.alloc(8192, 500).alloc(16384, 700).free(1024, 1000)
    kinds = [WEIGHT, UP, LOSS, None, None, AGAIN, GRADIENT, None, None]
    return with_notes(builder.finish_segments().build(), [kinds])


def test_peaks_belong_to_one_pass() -> None:
    rows = rows_of(modules_report(views.opened(example())))
    # The weight existed before the forward pass, so it isn't part of that pass's peak.
    up = rows["GPT.h.0.up"]
    assert (up.parameters_bytes, up.gradients_bytes, up.activations_bytes) == (400, 700, 1000)
    assert (up.peak_forward_bytes, up.peak_forward_event) == (1000, 1)
    assert (up.peak_backward_bytes, up.peak_backward_event) == (700, 6)
    assert (rows["GPT"].peak_backward_bytes, rows["GPT"].peak_backward_event) == (1200, 6)
    assert rows["GPT.h.0"].own_bytes == 500
    assert (rows[None].total_bytes, rows[None].peak_forward_bytes) == (0, 30)


def test_only_allocations_that_pass_the_filter_count() -> None:
    snap = views.opened(example())
    rows = rows_of(modules_report(snap, filters=Filters(include=("Block",))))
    assert rows["GPT"].total_bytes == 1400
    assert rows["GPT"].peak_backward_bytes == 0
    held = rows_of(modules_report(snap, measure="held", at=When("end")))
    assert held["GPT"].total_bytes == 1600


def test_modules_below_the_maximum_depth_count_for_their_parent() -> None:
    builder = SnapshotBuilder().alloc(512, 400).alloc(1024, 8)
    kinds: list[Kind | None] = [
        ("other", "forward", "a" + ".b" * 5000),
        ("other", "forward", "a" + ".b" * 31),
    ]
    snapshot = with_notes(builder.build(), [kinds])
    (device,) = modules_report(views.opened(snapshot), top=0).devices
    assert [one.depth for one in device.modules] == list(range(1, 33))
    assert {one.total_bytes for one in device.modules} == {408}
    assert device.modules[-1].own_bytes == 408


def test_error_if_modules_are_unknown() -> None:
    plain = views.opened(SnapshotBuilder().alloc(512, 1).build())
    with pytest.raises(NothingToTellError) as error:
        modules_report(plain)
    assert str(error.value) == NOT_RECORDED
    torn = example()
    torn["memreplay"]["allocations"]["kinds"] = "?"
    with pytest.raises(NothingToTellError, match="can't be used: one of its columns is damaged"):
        modules_report(views.opened(torn))
    with pytest.raises(UsageError, match="reserved memory has no modules; choose another measure"):
        modules_report(views.opened(example()), measure="reserved")
    with pytest.raises(UsageError, match="depth must be a whole number of at least 0"):
        modules_report(views.opened(example()), depth=-1)
