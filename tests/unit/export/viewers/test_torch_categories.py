"""torch_categories: the changes are in the right columns and add up to the measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.engine.record._tracker import CATEGORIES
from memreplay.errors import UsageError
from memreplay.export.viewers.sampling import US, event_ns
from memreplay.export.viewers.torch_categories import (
    COLUMNS,
    GUESSED,
    RECORDED,
    category_events,
    column_of,
)
from memreplay.snapshot.model import MeasureName
from tests import oracle, views
from tests.build import SnapshotBuilder
from tests.noted import noted_of, noted_traces, with_notes
from tests.strategies import traces


@given(traces(max_devices=1), st.sampled_from(("requested", "held", "active")))
def test_rows_add_up_to_the_series(snapshot: Any, measure: MeasureName) -> None:
    snap = views.opened(snapshot)
    if len(snap.devices) != 1:
        return
    usage = snap.replay().measure(measure)
    found = category_events(snap, measure=measure)
    assert int(found.carried_over_bytes.sum()) == usage.start_bytes
    running = usage.start_bytes + np.cumsum(found.bytes)
    assert (running[-1] if len(running) else usage.start_bytes) == usage.end_bytes
    allocs = int(np.asarray(usage.native.counted()).sum())
    assert len(found.bytes) - int(found.is_free.sum()) == allocs
    assert (found.bytes[found.is_free] <= 0).all()
    assert (found.bytes[~found.is_free] >= 0).all()
    at_ns = found.at_ns.tolist()
    assert at_ns == sorted(at_ns)
    # Each event has its own time here.
    after = dict(zip(at_ns, running.tolist(), strict=True))
    first = usage.replay.time_range if found.timed else None
    events = event_ns(usage.replay, None if first is None else first[0]).tolist()
    since = 0 if first is None else first[0] * US
    moments = {at + since: n for at, n in zip(events, usage.series.tolist(), strict=True)}
    assert after.items() <= moments.items()


def test_guessed_categories_have_a_column() -> None:
    names = {COLUMNS[column_of(name, recorded=False)] for name in GUESSED}
    assert names == {
        "parameter",
        "optimizer state",
        "input",
        "activation",
        "gradient",
        "temporary",
    }
    assert set(GUESSED) <= {rule.name for rule in DEFAULT_RULES}
    assert COLUMNS[column_of("Autograd Detail", recorded=False)] == "autograd detail"
    for name in ("compiled code", "my own", "gradients"):
        assert COLUMNS[column_of(name, recorded=False)] == "unknown"


def test_every_recorded_category_has_a_column() -> None:
    found = {name: COLUMNS[column_of(name, recorded=True)] for name in CATEGORIES}
    assert found == {
        "": "unknown",
        "unsharded parameters": "parameter",
        "parameters": "parameter",
        "buffers": "input",
        "unsharded gradients": "gradient",
        "gradients": "gradient",
        "optimizer state": "optimizer state",
        "inputs": "input",
        "communication": "unknown",
        "activations": "activation",
        "temporary": "temporary",
        "autograd detail": "autograd detail",
        "other": "unknown",
    }
    assert set(RECORDED) <= set(CATEGORIES)


@given(noted_traces(max_devices=1))
def test_recorded_category_of_an_event_sets_its_column(snapshot: Any) -> None:
    snap = views.opened(snapshot)
    if len(snap.devices) != 1:
        return
    (device,) = snap.devices
    found = category_events(snap)
    assert found.recorded
    sums = np.zeros(len(COLUMNS), dtype=np.int64)
    np.add.at(sums, found.carried_category, found.carried_over_bytes)
    np.add.at(sums, found.category, found.bytes)
    column, before = noted_of(snapshot, device)
    expected = [0] * len(COLUMNS)
    for one in oracle.replay(snapshot, device).lifetimes:
        if one.free_index is None:
            kind = before.get(one.addr) if one.alloc_index < 0 else column[one.alloc_index]
            expected[column_of(kind[0] if kind else "unknown", recorded=True)] += one.size
    assert sums.tolist() == expected


def test_custom_rules_take_precedence_over_recorded_categories() -> None:
    made = SnapshotBuilder().alloc(0x1000, 10, frames=[views.FORWARD]).alloc(0x2000, 5).build()
    noted = with_notes(made, [[("activations", "forward", "GPT")] * 2])
    found = category_events(views.opened(noted))
    assert [COLUMNS[i] for i in found.category] == ["activation", "activation"]
    found = category_events(views.opened(noted), rules=(Rule("Gradient", frames="model"),))
    assert [COLUMNS[i] for i in found.category] == ["gradient", "activation"]
    assert not category_events(views.opened(made)).recorded


def test_custom_rules_set_the_column() -> None:
    made = SnapshotBuilder().alloc(0x1000, 10, frames=[views.FORWARD]).build()
    rules = (Rule("Gradient", frames="model"),)
    found = category_events(views.opened(made), rules=rules)
    assert [COLUMNS[i] for i in found.category] == ["gradient"]
    found = category_events(views.opened(made))
    assert [COLUMNS[i] for i in found.category] == ["activation"]


def test_extreme_time_is_clamped_to_zero() -> None:
    made = SnapshotBuilder().alloc(0x1000, 1, time_us=-(2**63) + 5).alloc(0x2000, 1, time_us=7)
    assert category_events(views.opened(made.build())).at_ns[0] == 0


def test_reserved_and_several_devices_are_refused() -> None:
    snap = views.opened(views.everything())
    with pytest.raises(
        UsageError, match="reserved memory has no categories; choose another measure"
    ):
        category_events(snap, measure="reserved")
    with pytest.raises(
        UsageError, match="this format holds one device; choose it with device: 0, 1"
    ):
        category_events(snap)
