"""Compare memreplay's categories for a recorded program with PyTorch and with the program's own
objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from tests.truth import beside
from tests.truth.compare import Compared, Figure, places


def compare_recorded(snapshot: Path) -> Compared:
    """Compare all figures of the process that wrote its own recording to `PID.recorded.pickle`."""
    with snapshot.with_suffix(".truth").open("rb") as file:
        truth = pickle.load(file)
    snap = mr.open(str(snapshot.with_suffix(".recorded.pickle")))
    figures = list(_figures(snap, truth))
    if truth["beside"] or truth["timeline"]:
        figures += beside.figures(snapshot.with_suffix(".recorded.pickle"), truth)
    return Compared(
        sum(one.truth == one.memreplay for one in figures),
        [one for one in figures if one.truth != one.memreplay],
        0,
    )


def _figures(snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure]:
    yield Figure("what is wrong with what was noted", "", snap.recorded_flaw)
    events = [at for at in places(snap, 0, truth["taken"] - 1) if at is not None]
    # The last moment comes after the recording. After an OOM there are no more moments.
    assert len(events) == truth["taken"] - 1 or (snap.native.n_ooms and len(events) > 4)
    moments = [one for one in truth["moments"] if one["snapshot"] < len(events)]
    usage = snap.replay(0).measure("requested")
    grouper = Grouper(snap, "category")
    peaks = [one["figures"][0]["requested"].get("peak") for one in moments]
    if (
        None not in peaks
    ):  # otherwise another thread may have changed the values while they were read
        yield Figure("requested at the peak", max(peaks), usage.peak.bytes)
    for at in (usage.peak.event_index, *(events[one["snapshot"]] for one in moments)):
        unknown = _sums(grouper, usage, at).get("unknown", 0)
        yield Figure(f"unknown at {at}", 0, unknown)
    for one in moments:
        at = events[one["snapshot"]]
        want = one["figures"][0]["requested"]["current"]
        yield Figure(f"all categories at {at}", want, sum(_sums(grouper, usage, at).values()))
    yield from _failed(snap)
    for number, (moment, sums) in enumerate(truth["categories"]):
        at = events[moment]
        found = _sums(grouper, usage, at)
        for name, n_bytes in sums.items():
            category = name.replace("_", " ")
            yield Figure(
                f"stock {number} at {at}: {category} {found}", n_bytes, found.get(category, 0)
            )


def _failed(snap: mr.Snapshot) -> Iterator[Figure]:
    """Check that `oom` gives all active memory a category when a request fails."""
    for device in mr.oom(snap).devices:
        for one in device.ooms:
            found = {kind.category: kind.bytes for kind in one.categories}
            at = f"oom {one.number}"
            yield Figure(f"categories at {at}", "recorded", one.categories_source)
            yield Figure(f"unknown at {at}", 0, found.get("unknown", 0))
            yield Figure(f"all categories at {at}", one.active_bytes, sum(found.values()))


def _sums(grouper: Grouper, usage: Any, event: int) -> dict[str, int]:
    return {group.label: group.bytes for group in grouper.groups(usage, event, 0)[0]}
