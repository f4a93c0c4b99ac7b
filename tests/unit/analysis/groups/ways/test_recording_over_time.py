"""recording: groups by the recorder's notes match plain Python, at a moment and over time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.categories.rules import Rule
from memreplay.analysis.groups.grouping import Grouper
from memreplay.commands.timeline.find import timeline_report
from tests import oracle, views
from tests.build import SnapshotBuilder
from tests.noted import Kind, noted_of, noted_traces, with_notes

PLACES: tuple[str, ...] = ("category", "phase", "module")


def expected(snapshot: Any, device: int, way: str, event: int) -> dict[str, int]:
    """Return the live bytes after an event, grouped by recorded notes."""
    column, before = noted_of(snapshot, device)
    found: Counter[str] = Counter()
    for one in oracle.replay(snapshot, device).live_at(event):
        kind = before.get(one.addr) if one.alloc_index < 0 else column[one.alloc_index]
        name = kind[PLACES.index(way)] if kind else "unknown"
        found[name or ("(in no module)" if way == "module" else "unknown")] += one.size
    return {name: n for name, n in found.items() if n}


@given(noted_traces(), st.sampled_from(PLACES), st.integers(-1, 25))
def test_groups_at_a_moment_match_plain_python(snapshot: Any, way: str, event: int) -> None:
    snap = views.opened(snapshot)
    for device in snap.devices:
        usage = snap.replay(device).measure()
        at = min(event, usage.replay.events - 1)
        groups, _, _ = Grouper(snap, way).groups(usage, at, 0)
        assert {g.label: g.bytes for g in groups if g.bytes} == expected(snapshot, device, way, at)


@given(noted_traces(max_devices=1), st.sampled_from(PLACES), st.integers(0, 3))
def test_groups_over_time_match_plain_python(snapshot: Any, way: str, top: int) -> None:
    snap = views.opened(snapshot)
    report = timeline_report(snap, by=way, top=top, points=1000, x="event")
    for series in report.devices:
        for i, event in enumerate(series.max_event):
            now = expected(snapshot, series.device, way, event)
            shown = {layer.label: layer.bytes[i] for layer in series.layers}
            assert {name: n for name, n in shown.items() if n} == {
                name: n for name, n in now.items() if name in shown
            }
            assert sum(shown.values()) + series.rest[i] == sum(now.values())
            assert sum(now.values()) == series.buckets.max_bytes[i]
        if top == 0 and series.layers:
            assert not any(series.rest)


WEIGHT: Kind = ("parameters", "start", "GPT.h.0")
LOSS: Kind = ("activations", "forward", "")


def noted() -> SnapshotBuilder:
    """Build a recording of a 100-byte parameter, a 30-byte loss, and 7 bytes without notes."""
    builder = SnapshotBuilder().alloc(512, 100, frames=[("main", "/home/u/weights.py", 3)])
    return builder.alloc(1024, 30, frames=[("forward", "/home/u/loss.py", 1)]).alloc(4096, 7)


@pytest.mark.parametrize(
    "by, found",
    [
        ("category", {"parameters": 100, "activations": 30, "unknown": 7}),
        ("phase", {"start": 100, "forward": 30, "unknown": 7}),
        ("module", {"GPT.h.0": 100, "(in no module)": 30, "unknown": 7}),
        (
            "phase,module",
            {"start, GPT.h.0": 100, "forward, (in no module)": 30, "unknown, unknown": 7},
        ),
        ("category,file", {"parameters, /home/u/weights.py": 100}),
    ],
)
def test_groups_have_the_recorded_labels(by: str, found: dict[str, int]) -> None:
    snap = views.opened(with_notes(noted().build(), [[WEIGHT, LOSS, None]]))
    groups, _, _ = Grouper(snap, by).groups(snap.replay().measure(), 2, 0)
    assert found.items() <= {g.label: g.bytes for g in groups}.items()
    assert sum(g.bytes for g in groups) == 137


def test_custom_rules_come_first_and_may_reuse_a_recorded_name() -> None:
    snap = views.opened(with_notes(noted().build(), [[WEIGHT, LOSS, None]]))
    usage = snap.replay().measure()

    def found(*rules: Rule) -> dict[str, int]:
        groups, _, _ = Grouper(snap, "category", rules).groups(usage, 2, 0)
        return {g.label: g.bytes for g in groups}

    mine = Rule("my loss", frames="loss")
    assert found(mine) == {"parameters": 100, "my loss": 30, "unknown": 7}
    assert found(Rule("parameters", frames="loss")) == {"parameters": 130, "unknown": 7}
    both = Rule("a", frames="weights"), Rule("a", frames="loss"), mine
    assert found(*both) == {"a": 130, "unknown": 7}
    assert found(mine, Rule("rest")) == {"rest": 107, "my loss": 30}


def test_phases_are_guessed_without_notes() -> None:
    snap = views.opened(noted().build())
    usage = snap.replay().measure()
    groups, _, _ = Grouper(snap, "phase").groups(usage, 2, 0)
    assert {g.label: g.bytes for g in groups} == {"forward": 30, "backward": 7, "unknown": 100}
