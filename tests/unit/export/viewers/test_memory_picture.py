"""memory_picture: the values drawn for each time bucket match a scan of all changes; the page."""

from __future__ import annotations

import base64
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.memory_picture import COLOURS, highest, render_page
from memreplay.export.viewers.records import CategoryEvents
from memreplay.export.viewers.torch_categories import COLUMNS, category_events
from tests import views
from tests.build import START_US, SnapshotBuilder
from tests.noted import noted_traces
from tests.torch_parts import torch_part
from tests.unit.export.viewers.test_memory_timeline import example


def slow(report: CategoryEvents, parts: int) -> tuple[list[int], list[list[int]]]:
    """Find the first highest value and the last value in each bucket with a change."""
    now = [0] * len(COLUMNS)
    for category, n in zip(report.carried_category, report.carried_over_bytes, strict=True):
        now[category] += int(n)
    if not len(report.at_ns):
        return [0], [now]
    since = [int(t - report.at_ns[0]) for t in report.at_ns]
    width = since[-1] // parts + 1
    when, found = [], []
    for part in range(parts):
        changes = [i for i, t in enumerate(since) if t // width == part]
        states = [list(now)]
        for i in changes:
            now[report.category[i]] += int(report.bytes[i])
            states.append(list(now))
        if changes:
            when += [part * width, (part + 1) * width]
            found += [max(states, key=sum), states[-1]]
    return when, found


@given(noted_traces(max_devices=1), st.integers(1, 40))
def test_buckets_match_all_changes(snapshot: Any, parts: int) -> None:
    snap = views.opened(snapshot)
    if len(snap.devices) != 1:
        return
    report = category_events(snap)
    when, held = highest(report, parts)
    assert (when, held.tolist()) == slow(report, parts)
    assert held.sum(axis=1).max() == snap.replay().measure().peak.bytes
    assert held[-1].sum() == snap.replay().measure().end_bytes


def page(made: SnapshotBuilder) -> bytes:
    pytest.importorskip("matplotlib")
    report = category_events(views.opened(made.build()))
    with warnings.catch_warnings():
        # Matplotlib warns about dependencies that are newer than itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        return b"".join(render_page(report))


@pytest.mark.slow
def test_page_contains_the_picture() -> None:
    found = page(example(SnapshotBuilder()))
    assert found == page(example(SnapshotBuilder()))
    assert found.startswith(b"<!doctype html>")
    data = re.search(rb'src="data:image/png;base64,([^"]+)"', found)
    assert data is not None
    assert base64.b64decode(data[1]).startswith(b"\x89PNG")
    assert b"src=" not in found.replace(data[0], b"")
    # Different bytes give a different picture.
    assert found != page(example(SnapshotBuilder()).alloc(1 << 30, 1 << 20))


@pytest.mark.parametrize(
    "made",
    [
        SnapshotBuilder().event("user_defined", 0, 0),
        SnapshotBuilder(times=False).alloc(512, 5).alloc(1024, 0),
        SnapshotBuilder().alloc(512, 0, time_us=START_US),
        SnapshotBuilder().free(512, 2**40),
    ],
)
def test_tiny_values_are_drawn(made: SnapshotBuilder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert b"base64" in page(made)


def test_every_category_has_a_colour() -> None:
    assert len(set(COLOURS)) == len(COLUMNS)


@pytest.mark.viewers
@pytest.mark.filterwarnings("ignore")
def test_colours_match_torch() -> None:
    profiler = torch_part("torch.profiler._memory_profiler")
    assert tuple(profiler._CATEGORY_TO_COLORS.values()) == COLOURS


def test_long_times_fit_into_the_picture() -> None:
    report = category_events(
        views.opened(SnapshotBuilder().alloc(512, 5, time_us=0).alloc(1, 1, time_us=2**52).build())
    )
    when, held = highest(report)
    assert when[0] == 0
    assert np.diff(when).min() >= 0
    assert held.sum(axis=1).tolist() == [5, 5, 6, 6]
