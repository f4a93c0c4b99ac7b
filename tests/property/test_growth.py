"""Sums per step, and groups at step ends, match slow Python for any trace and any steps."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.steps.summing import Outside, Step
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.steps.find import steps_report
from memreplay.engine.query import _groups, _growth
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES
from tests import build, oracle, oracle_steps
from tests.allocator_strategies import Recording, recordings
from tests.build import Snapshot, SnapshotBuilder
from tests.examples import examples
from tests.strategies import traces


class Kind(NamedTuple):
    """A grouping key: functions that return the engine's groups, their meaning, and the oracle's
    groups.
    """

    keys: Callable[[mr.Replay], _groups.Keys]
    shown: Callable[[mr.Snapshot, int], object]
    slow: Callable[[oracle.Lifetime], object]


def special(of: Callable[[mr.Snapshot, int], object]) -> Callable[[mr.Snapshot, int], object]:
    names: dict[int, object] = {_groups.CARRIED: None, _groups.NO_STACK: ()}
    return lambda snap, name: names[name] if name in names else of(snap, name)


def by_stack(kind: str) -> Callable[[mr.Replay], _groups.Keys]:
    def keys(replay: mr.Replay) -> _groups.Keys:
        none = bytes(replay.native.tables.n_strings)
        return _groups.stack_keys(replay.native, kind, none, none)

    return keys


KINDS = {
    "stack": Kind(
        by_stack("stack"),
        special(lambda snap, i: tuple((f.function, f.file, f.line) for f in snap.stack(i))),
        oracle_steps.key_of,
    ),
    "file": Kind(
        by_stack("file"),
        special(lambda snap, i: snap.text(i)),
        lambda one: one.frames[0][1] if one.frames else oracle_steps.key_of(one),
    ),
    "row": Kind(
        lambda replay: _groups.row_keys(
            replay.native, array("I", (i % 3 for i in range(replay.events))), 3
        ),
        lambda _, name: name,
        lambda one: one.alloc_index % 3 if one.alloc_index >= 0 else 3,
    ),
}


@settings(max_examples=examples(300))
@given(snapshot=traces(max_devices=1, max_events=40), cuts=st.lists(st.integers(0, 40)))
def test_sums_match_the_oracle_for_any_steps(snapshot: Snapshot, cuts: list[int]) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        want = oracle.replay(snapshot, device)
        usage = snap.replay(device).measure()
        inside = sorted(min(cut, len(want.usage)) for cut in cuts)
        spans = list(pairwise(inside))[::2]
        found = _growth.step_sums(
            usage.replay.native, usage.native, usage.column, usage.start_bytes, spans
        )
        slow = oracle_steps.step_sums(want, spans)
        assert found == [(s.peak, s.peak_at, s.end, s.allocations, s.allocated) for s in slow]


@settings(max_examples=examples(300))
@given(
    snapshot=traces(max_devices=1, max_events=60),
    cuts=st.lists(st.integers(-1, 60), min_size=1, max_size=20),
    third=st.integers(0, 3),
    age=st.integers(0, 4),
    by=st.sampled_from(sorted(KINDS)),
)
def test_groups_match_the_oracle_at_the_ends_of_any_steps(
    snapshot: Snapshot, cuts: list[int], third: int, age: int, by: str
) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        want = oracle.replay(snapshot, device)
        moments = sorted(min(cut, len(want.usage) - 1) for cut in cuts)
        check_groups(snapshot, device, moments, (len(moments) - 1) * third // 4, age, by)


def check_groups(
    snapshot: Snapshot, device: int, moments: list[int], warm: int, age: int, by: str
) -> None:
    """Check that all the engine's results for groups at these moments match the oracle."""
    kind = KINDS[by]
    snap = mr.open(build.dump(snapshot))
    want = oracle.replay(snapshot, device)
    replay = snap.replay(device)
    levels = [oracle_steps.level(want, at) for at in moments]
    leaks, leaking, once, rest, totals, young = _growth.groups_grown(
        replay.measure().native, kind.keys(replay), moments, levels, warm, age, 1, 0
    )
    assert (leaking, rest) == (len(leaks), len(once))
    rows = {kind.shown(snap, row[0]): row for row in leaks + once}
    assert len(rows) == leaking + rest
    old = oracle_steps.old(want, moments, warm, age)
    groups, whole, within = oracle_steps.all_groups(want, moments, kind.slow, warm, 1, levels)
    for name, group in groups.items():
        judged = group.judged
        if not judged.rate and (judged.stayed <= 0 or not group.moves):
            assert name not in rows
            continue
        *row, growth, made_up, replaced = rows.pop(name)
        *row, error, odds = row
        _, rate, stayed, start, warmed, end, since, rises, _, stopped, *aged = row
        assert odds == pytest.approx(judged.odds)
        assert error == pytest.approx(judged.error, abs=1)
        assert (rate, since, rises) == (judged.rate, judged.since, judged.rises)
        assert (stayed, stopped) == (judged.stayed, judged.stopped)
        assert (start, warmed, end) == (
            group.values[0],
            group.values[warm],
            group.values[-1],
        )
        assert growth == group.growth or not judged.rate
        assert (made_up, replaced) == (group.made_up, group.replaced)
        mine = [one.size for one in old if kind.slow(one) == name]
        assert aged == [sum(mine), len(mine)]
    assert not rows
    others = [one for one in groups.values() if one.moves and not one.judged.rate]
    assert young == [sum(one.young[k] for one in groups.values()) for k in range(len(moments))]
    assert totals == (
        sum(row[1] for row in leaks),
        sum(row[14] for row in leaks),
        sum(row[2] for row in once),
        max(0, *(one.values[-1] - one.values[warm] for one in others), 0),
        sum(one.size for one in old),
        len(old),
        whole,
        sum(one.needs_more for one in groups.values()),
        within,
    )
    assert [row[1] for row in leaks] == sorted((row[1] for row in leaks), reverse=True)


Line = tuple[str, int, int, int]
"""The actions of a line of a program: its sizes, and two numbers for how often and how much."""


@st.composite
def loops(draw: st.DrawFn) -> tuple[SnapshotBuilder, list[int]]:
    """Draw a program whose lines keep, free and replace tensors, along with the events at which its
    steps end.
    """
    kinds = st.sampled_from(["keep", "let go", "replace", "larger", "swap", "work"])
    lines: list[Line] = draw(
        st.lists(
            st.tuples(kinds, st.integers(1, 9), st.integers(1, 4), st.integers(0, 5)),
            min_size=1,
            max_size=6,
        )
    )
    made = SnapshotBuilder()
    live: list[list[tuple[int, int]]] = [[] for _ in lines]
    addresses = iter(range(1 << 30, 1 << 50, 1 << 30))

    def keep(line: int, size: int) -> None:
        address = next(addresses)
        made.alloc(address, size, frames=[("f", "train.py", line % 5)])
        live[line].append((address, size))

    for line, (kind, size, *_) in enumerate(lines):
        for _ in range(40 if kind in ("let go", "swap") else 0):
            keep(line, 1000 * size)
    moments = [len(made.build()["device_traces"][0]) - 1]
    for k in range(draw(st.integers(5, 36))):
        for line, (kind, size, every, more) in enumerate(lines):
            if (k + more) % every:
                continue
            if kind in ("let go", "swap") and live[line]:
                made.free(*live[line].pop(0))
            if kind != "let go":
                keep(line, 1000 * size + 500 * k * (more if kind in ("larger", "work") else 0))
            if kind in ("replace", "larger") and len(live[line]) > 1 + more % 3:
                made.free(*live[line].pop(0))
            if kind == "work":
                made.free(*live[line].pop())
        moments.append(len(made.build()["device_traces"][0]) - 1)
    return made, moments


@settings(max_examples=examples(150))
@given(loop=loops())
def test_growing_and_shrinking_loops_match_the_oracle(
    loop: tuple[SnapshotBuilder, list[int]],
) -> None:
    made, moments = loop
    check_groups(made.build(), 0, moments, (len(moments) - 1) // 3, 3, "stack")


@settings(max_examples=examples(100))
@given(
    recording=recordings(),
    period=st.one_of(st.none(), st.integers(1, 40)),
    measure=st.sampled_from(MEASURES),
)
def test_report_accounts_for_every_event(
    recording: Recording, period: int | None, measure: Any
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    try:
        report = steps_report(snap, measure=measure, period=period)
    except UsageError:
        assert period is None or all(
            snap.replay(device).events < 2 * period for device in snap.devices
        )
        return
    for found in report.devices:
        usage = snap.replay(found.device).measure(measure)
        if found.step_source is None:
            continue
        assert found.before is not None
        assert found.between is not None
        assert found.after is not None
        outside = (found.before, found.between, found.after)
        inside = sum(step.last_event - step.first_event + 1 for step in found.steps)
        assert inside + sum(part.events for part in outside) == found.events
        parts: list[Step | Outside] = [*found.steps, *outside]
        whole = _growth.step_sums(
            usage.replay.native,
            None if measure == "reserved" else usage.native,
            usage.column,
            usage.start_bytes,
            [(0, found.events)],
        )[0]
        assert sum(part.allocation_count for part in parts) == whole[3]
        assert sum(part.allocated_bytes for part in parts) == whole[4]
        assert max(part.peak_bytes for part in parts if part != found.between) <= whole[0]
        grown = sum(step.growth_bytes for step in found.steps)
        assert grown == found.steps[-1].end_bytes - usage.bytes_at(found.steps[0].first_event - 1)


@settings(max_examples=examples(60))
@given(recording=recordings(), windows=st.integers(5, 30))
def test_leaks_and_the_rest_add_up_to_the_growth(recording: Recording, windows: int) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    try:
        report = leaks_report(snap, windows=windows, top=0)
    except UsageError:
        return
    for found in report.devices:
        if found.step_source is None:
            continue
        assert found.end_bytes == found.start_bytes + (
            snap.replay(found.device).measure().bytes_at(found.last_step_event)
            - snap.replay(found.device).measure().bytes_at(found.first_step_event - 1)
        )
        assert sum(one.growth_bytes for one in found.leaks) == found.leak_bytes
        assert sum(one.bytes_per_step for one in found.leaks) == found.leak_bytes_per_step
        assert sum(one.growth_bytes for one in found.once) == found.once_bytes
