"""The recorder's notes stay the same in every range, slice, converted file and dataset made from a
snapshot.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.export.snapshots.cutting import cut
from memreplay.export.tables import table
from memreplay.export.tables.parquet import write_parquet
from memreplay.io.dataset_files import TABLES
from memreplay.io.packing import Format
from memreplay.snapshot.conversion import convert
from tests import build, oracle
from tests.allocator_strategies import recordings
from tests.strategies import Noted, noted, traces

WAYS = ("category", "phase", "module")
# One device, or several that share no address, as in one process.
PROGRAMS = st.one_of(
    traces(max_devices=1, max_events=30), recordings(max_steps=40).map(lambda one: one.snapshot)
)
Sums = dict[str, tuple[int, int]]


def truth(one: Noted, replay: oracle.OracleReplay, event: int, way: str, least: int = 0) -> Sums:
    """Return the (bytes, count) of each name in the live set after an event."""
    n_bytes: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for live in replay.live_at(event):
        if live.size >= least:
            name = one.called(replay.device, live.alloc_index, live.addr, way)
            n_bytes[name] += live.size
            count[name] += 1
    return {name: (n_bytes[name], count[name]) for name in count}


def groups(snap: mr.Snapshot, device: int, event: int, way: str) -> Sums:
    found, total, count = Grouper(snap, way).groups(snap.replay(device).measure(), event, 0)
    sums = {group.label: (group.bytes, group.count) for group in found}
    assert len(sums) == len(found) == total
    assert sum(n for _, n in sums.values()) == count
    return sums


def assert_noted(
    snap: mr.Snapshot, one: Noted, first: int = 0, *, moments: Sequence[int], least: int = 0
) -> None:
    """Check that `snap` has all events from `first` on, and the same results at these moments,
    counted from `first`.
    """
    assert snap.recorded_flaw == ""
    assert snap.recorded is not None
    for device in snap.devices:
        want, replay = oracle.replay(one.snapshot, device), snap.replay(device)
        for moment in moments:
            moment = min(moment, replay.events - 1)
            event = min(first, len(want.usage)) + moment
            for way in WAYS:
                expected = truth(one, want, event, way, least)
                assert groups(snap, device, replay.first_event + moment, way) == expected


@given(st.data())
def test_ranges_and_slices_keep_the_notes(data: st.DataObject) -> None:
    one = data.draw(noted(data.draw(PROGRAMS)))
    most = max(map(len, one.of_events), default=0)
    first = data.draw(st.integers(0, most + 1), "first")
    last = data.draw(st.integers(first, most + 2), "last")
    moments = (-1, 0, (last - first) // 2, last - first)
    file = build.dump(one.snapshot)
    assert_noted(mr.open(file), one, moments=(-1, first, last))
    part = mr.open(file, start=first, stop=last)
    assert_noted(part, one, first, moments=moments)
    sliced = mr.open(pickled(part))
    assert_noted(sliced, one, first, moments=moments)
    again = mr.open(pickled(mr.open(pickled(sliced), start=0), strip="all"))
    assert_noted(again, one, first, moments=moments)
    if part.devices:
        device = data.draw(st.sampled_from(part.devices))
        alone = mr.open(file, start=first, stop=last, device=device)
        assert_noted(alone, one, first, moments=moments)
        assert_noted(mr.open(pickled(alone)), one, first, moments=moments)


def pickled(snap: mr.Snapshot, **options: Any) -> bytes:
    return b"".join(cut(snap, **options)[1])


@given(st.data())
def test_slices_of_slices_keep_the_notes(data: st.DataObject) -> None:
    one = data.draw(noted(data.draw(recordings(max_steps=40)).snapshot))
    cuts = sorted(data.draw(st.lists(st.integers(0, 60), min_size=4, max_size=4), "cuts"))
    outer = mr.open(pickled(mr.open(build.dump(one.snapshot), start=cuts[0], stop=cuts[3])))
    for device in outer.devices:
        shift = outer.replay(device).first_event - cuts[0]
        inner = mr.open(pickled(outer), start=cuts[1] + shift, stop=cuts[2] + shift, device=device)
        moments = (-1, 0, cuts[2] - cuts[1])
        assert_noted(inner, one, cuts[1], moments=moments)
        assert_noted(mr.open(pickled(inner)), one, cuts[1], moments=moments)


@given(st.data(), st.sampled_from((1, 513, 4096, 1 << 20)))
def test_slices_without_small_allocations_keep_the_notes(data: st.DataObject, least: int) -> None:
    one = data.draw(noted(data.draw(recordings(max_steps=40)).snapshot))
    first = data.draw(st.integers(0, 40), "first")
    part = mr.open(build.dump(one.snapshot), start=first)
    sliced = mr.open(pickled(part, min_bytes=least))
    assert sliced.recorded_flaw == ""
    # The slice has fewer events, but its start and end correspond to the range's.
    for device in sliced.devices:
        want, replay = oracle.replay(one.snapshot, device), sliced.replay(device)
        ends = (min(first, len(want.usage)) - 1, -1), (len(want.usage) - 1, replay.events - 1)
        for event, moment in ends:
            for way in WAYS:
                expected = truth(one, want, event, way, least)
                assert groups(sliced, device, replay.first_event + moment, way) == expected


@given(st.data())
def test_converted_files_keep_the_notes(data: st.DataObject) -> None:
    one = data.draw(noted(data.draw(PROGRAMS)))
    file = build.dump(one.snapshot, data.draw(st.sampled_from((2, 3, 4, 5))))
    source = data.draw(st.sampled_from((file, json.dumps(one.snapshot).encode())))
    fmt: Format = data.draw(st.sampled_from(("json", "pickle")))
    protocol = data.draw(st.sampled_from((2, 3, 4, 5))) if fmt == "pickle" else None
    pieces: list[bytes] = []
    convert(source, pieces.append, fmt=fmt, protocol=protocol)
    assert_noted(mr.open(b"".join(pieces)), one, moments=(-1, 9))


@given(st.data())
def test_truncated_files_keep_the_notes_that_they_contain(data: st.DataObject) -> None:
    one = data.draw(noted(data.draw(PROGRAMS)))
    # The notes may come before the events.
    order = data.draw(st.permutations(sorted(one.snapshot)))
    file = build.dump({key: one.snapshot[key] for key in order})
    assert_noted(mr.open(file), one, moments=(-1, 9))
    part = file[: data.draw(st.integers(1, len(file)))]
    try:
        snap = mr.open(part, salvage=True)
    except mr.SnapshotError:
        return
    if snap.recorded is None:
        assert snap.recorded_flaw or "allocations" not in snap.recorder
        return
    for device in snap.devices:
        replay = snap.replay(device)
        column = one.of_events[device] if device < len(one.of_events) else []
        assert replay.events == len(column)


@given(st.data())
def test_tables_keep_the_notes(data: st.DataObject) -> None:
    pytest.importorskip("pyarrow")
    one = data.draw(noted(data.draw(traces(max_devices=1, max_events=20))))
    snap = mr.open(build.dump(one.snapshot))
    rows = table(snap, "allocations").to_arrow().to_pylist()
    for row in rows:
        event = -1 if row["alloc_event"] is None else row["alloc_event"]
        for way in WAYS:
            name: str | None = one.called(row["device"], event, row["address"], way)
            if way == "module" and name in ("(in no module)", "unknown"):
                name = None
            assert row[way] == name, (row, way)
    with tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            with (Path(folder) / f"{name}.parquet").open("wb") as out:
                write_parquet(table(snap, name), out)
        assert_noted(mr.open(folder), one, moments=(-1, 5, 20))
        first = data.draw(st.integers(0, 20))
        assert_noted(mr.open(folder, start=first), one, first, moments=(-1, 5))
