"""Arrays and columns outlive their snapshot. Neither they nor the snapshot can be pickled."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.snapshot.model import MEASURES
from tests.threads.asking import TABLES, THREADS, at_once, column_names


def arrays(snap: mr.Snapshot) -> dict[str, Any]:
    """Return every array and column in a snapshot."""
    found: dict[str, Any] = {}
    for table in TABLES:
        rows = getattr(snap, table)
        for name in column_names(type(rows)):
            found[f"{table}.{name}"] = getattr(rows, name)
    replay = snap.replay()
    for name in MEASURES:
        usage = replay.measure(name)
        found[f"{name} series"] = usage.series
        found[f"{name} column"] = memoryview(usage.column)
        if name != "reserved":
            found[f"{name} lives"] = usage.lifetimes.address
            found[f"{name} live"] = usage.live_at(event=replay.start + replay.events).size
            found[f"{name} ends"] = memoryview(usage.native.ends())
            found[f"{name} carried"] = memoryview(usage.native.carried_weights())
    for kind in ("pool", "stream"):
        found[f"{kind} carried"] = memoryview(replay.classes(kind).of_carried())
    found["events"] = memoryview(replay.reserved.events())
    found["times"] = memoryview(replay.times) if replay.times is not None else b""
    found["action"] = replay.column("action")
    found["carried"] = replay.carried("address")
    found["changes"] = replay.segment_changes.address
    return found


def contents(found: dict[str, Any]) -> dict[str, bytes]:
    return {
        name: one.tobytes() if hasattr(one, "tobytes") else bytes(one)
        for name, one in found.items()
    }


def churn() -> None:
    """Allocate memory, so that released memory would be overwritten."""
    gc.collect()
    kept = [np.full(n, 0xA5, dtype=np.uint8) for n in (64, 1 << 10, 1 << 14, 1 << 18) * 40]
    assert all(one[-1] == 0xA5 for one in kept)


def test_arrays_outlive_their_snapshot(file: Path) -> None:
    snap = mr.open(file)
    found = arrays(snap)
    expected = contents(found)
    gone = weakref.ref(snap)
    del snap
    churn()
    assert gone() is None
    assert contents(found) == expected
    churn()
    assert contents(found) == expected


@pytest.mark.parametrize("last", range(0, 60, 7))
def test_any_view_keeps_its_data_alive(file: Path, last: int) -> None:
    found = arrays(mr.open(file))
    name = sorted(found)[last % len(found)]
    expected = contents({name: found[name]})
    kept = {name: found[name]}
    found.clear()
    churn()
    assert contents(kept) == expected


def test_memory_is_freed_with_the_last_view(file: Path) -> None:
    snap = mr.open(file)
    replay = snap.replay()
    usage = replay.measure("active")
    series = usage.series
    gone = [weakref.ref(one) for one in (snap, replay, usage)]
    with snap:
        pass
    del snap, replay, usage
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
    assert series.sum() > 0


def test_threads_can_release_the_same_snapshot(file: Path) -> None:
    """Each thread keeps an array, and releases everything else at a random time."""
    shared = [mr.open(file)]
    expected = contents(arrays(mr.open(file)))

    def ask() -> bool:
        found = arrays(shared[0])
        for _ in range(3):
            assert contents(found) == expected
        return True

    work: list[Callable[[], bool]] = [ask] * THREADS
    assert at_once(work) == [True] * THREADS
    gone = weakref.ref(shared.pop())
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("what", ["snapshot", "replay", "usage", "table"])
def test_views_cannot_be_pickled(file: Path, what: str) -> None:
    snap = mr.open(file)
    thing: Any = {
        "snapshot": snap,
        "replay": snap.replay(),
        "usage": snap.replay().measure("active"),
        "table": snap.events,
    }[what]
    _ = snap.devices, snap.events.device, snap.replay().peak
    with pytest.raises(TypeError, match="can't be pickled: in another process, open the file"):
        pickle.dumps(thing)
    assert copy.copy(thing) is thing
    assert copy.deepcopy([thing])[0] is thing


def test_records_can_be_pickled(file: Path) -> None:
    """Results are plain data that can be sent to other processes."""
    snap = mr.open(file)
    for one in (mr.peak(snap), snap.replay().peak, snap.stack(1), mr.summary(snap)):
        assert pickle.loads(pickle.dumps(one)) == one
