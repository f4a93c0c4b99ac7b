"""Compare one program's figures: memreplay's results for its snapshot with PyTorch's own
statistics.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import memreplay as mr
import memreplay._core as _core
from memreplay.analysis.caught.records import RulesCaught
from memreplay.analysis.trust.ring import dropped_events, overflowed
from memreplay.analysis.trust.trust import verdict
from memreplay.snapshot.model import MEASURES, MeasureName
from tests.truth.cases import Case

STATES = {"in_use": "active_allocated", "pending": "active_pending_free", "free": "inactive"}


class Figure(NamedTuple):
    """A figure: its name, PyTorch's value and memreplay's value."""

    what: str
    truth: Any
    memreplay: Any


class Compared(NamedTuple):
    """A case's figures."""

    equal: int
    wrong: list[Figure]
    estimated: int
    """The number of figures that memreplay doesn't call exact; these aren't compared."""


def compare(case: Case, snapshot: Path) -> Compared:
    """Compare all figures for the process that wrote this snapshot."""
    with snapshot.with_suffix(".truth").open("rb") as file:
        truth = pickle.load(file)
    snap = mr.open(os.fspath(snapshot))
    # This compares guesses with the truth; noted.py compares the recorder's notes.
    noted = ("allocations", "steps")
    snap.__dict__["recorder"] = {k: v for k, v in snap.recorder.items() if k not in noted}
    equal, wrong, estimated = 0, [], 0
    for figure in _figures(case, snap, truth):
        if figure is None:
            estimated += 1
        elif figure.truth == figure.memreplay:
            equal += 1
        else:
            wrong.append(figure)
    return Compared(equal, wrong, estimated)


def _figures(case: Case, snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure | None]:
    devices = len(truth["moments"][0]["figures"])
    for device in range(devices):
        if device not in snap.devices:
            peak = max(
                one["figures"][device]["reserved"].get("peak", 0) for one in truth["moments"]
            )
            yield Figure(f"device {device}: it has nothing", peak, 0)
            continue
        yield from _of_device(case, snap, device, truth)
    if truth["ooms"] or case.whole:
        yield from _ooms(snap, truth)
    if case.whole:
        yield from _steps(snap, truth)
    yield from _leaks(snap, truth)
    yield from _categories(snap, truth)


def _of_device(
    case: Case, snap: mr.Snapshot, device: int, truth: dict[str, Any]
) -> Iterator[Figure | None]:
    replay = snap.replay(device)
    events = places(snap, device, truth["taken"])
    name = f"device {device}, " if device else ""
    for measure in MEASURES:
        usage = replay.measure(measure)
        trust = verdict(snap, usage)
        if case.entries and measure == "requested":
            yield from _ring(case, snap, device, truth)
        if case.whole:
            yield Figure(
                f"{name}{measure}: trusted and exact",
                (True, True, ()),
                (trust.trusted, trust.exact, trust.reasons),
            )
        if not trust.exact:
            for _ in truth["moments"]:
                yield None
            continue
        yield from _over_time(f"{name}{measure}", usage, measure, device, truth, events)
    blocks = verdict(snap, replay.measure("active")).exact
    for one in truth["moments"]:
        at = events[one["snapshot"]]
        if "segments" in one and at is not None:
            if not blocks:
                yield None
                continue
            want = _blocks(one["segments"], device)
            found = _mapped(snap, device, at)
            yield Figure(f"{name}segments at {at}", len(want), len(found))
            for mine, other in zip(want, found, strict=False):
                if other[2] is None:  # in older versions of torch, events don't name their pool
                    yield None
                    mine, other = (*mine[:2], *mine[3:]), (*other[:2], *other[3:])
                yield Figure(f"{name}blocks at {at}", mine, other)
    if case.whole:
        counted = truth["moments"][-1]["ooms"][device]
        yield Figure(f"{name}requests that failed", counted, len(replay.events_of("oom")))


def _ring(case: Case, snap: mr.Snapshot, device: int, truth: dict[str, Any]) -> Iterator[Figure]:
    """Check that memreplay knows whether the ring buffer dropped events, and exactly how many."""
    counted = [one["events"][device] for one in (truth["moments"][0], truth["moments"][-1])]
    made = sum(counted[1].values()) - sum(counted[0].values())
    replay = snap.replay(device)
    kept = sum(replay.tally.actions.get(_core.ACTIONS.index(name), 0) for name in counted[0])
    name = f"device {device}: " if device else ""
    yield Figure(f"{name}events dropped", max(0, made - kept), dropped_events(snap, device))
    yield Figure(f"{name}ring overflowed", made > kept, overflowed(snap, device))
    trusted = verdict(snap, replay.measure("requested")).trusted
    yield Figure(f"{name}trusted although events were dropped", False, trusted and made > kept)


def _over_time(
    name: str,
    usage: Any,
    measure: MeasureName,
    device: int,
    truth: dict[str, Any],
    events: list[int | None],
) -> Iterator[Figure]:
    """Compare each moment, the peaks between moments, and the overall peak."""
    last: int | None = None
    peaks = []
    for one in truth["moments"]:
        at, figures = events[one["snapshot"]], one["figures"][device][measure]
        if at is not None:
            yield Figure(f"{name} at event {at}", figures["current"], usage.bytes_at(at))
            if last is not None and "peak" in figures:
                highest = usage.highest(last, at).bytes
                yield Figure(f"{name}, peak of {last} to {at}", figures["peak"], highest)
                peaks.append(figures["peak"])
        last = at
    if (
        len(peaks) == len(truth["moments"]) - 1
        and events[truth["moments"][0]["snapshot"]] is not None
    ):
        yield Figure(f"{name}, peak", max(peaks), usage.peak.bytes)
    yield Figure(f"{name}, end", figures["current"], usage.end_bytes)


def places(snap: mr.Snapshot, device: int, taken: int) -> list[int | None]:
    """Return each moment's event; None if the recorder has dropped it."""
    rows = snap.events.device == device
    actions = snap.events.action[rows].tolist()
    kinds = {code for code in set(actions) if snap.action_name(code) == "snapshot"}
    places: list[int | None] = [i for i, code in enumerate(actions) if code in kinds]
    assert len(places) <= taken, "others took snapshots"
    return [None] * (taken - len(places)) + places


def _blocks(segments: Any, device: int) -> list[Any]:
    """Return PyTorch's segments, with their blocks."""
    return sorted(
        (
            segment["address"],
            segment["total_size"],
            tuple(segment["segment_pool_id"]),
            segment["stream"],
            [
                (
                    block["address"],
                    block["size"],
                    block["state"],
                    0 if block["state"] == "inactive" else block["requested_size"],
                )
                for block in segment["blocks"]
            ],
        )
        for segment in segments
        if segment["device"] == device
    )


def _mapped(snap: mr.Snapshot, device: int, event: int) -> list[Any]:
    """Return memreplay's segments, with their blocks."""
    report = mr.fragmentation(
        snap, at=mr.When("event", event), blocks=True, top=0, device=device
    ).devices[0]
    return sorted(
        (
            segment.address,
            segment.reserved_bytes,
            segment.pool,
            segment.stream,
            [
                (block.address, block.bytes, STATES[block.state], block.requested_bytes)
                for block in segment.blocks
            ],
        )
        for segment in report.map
    )


# --- why a request failed ------------------------------------------------------------------------

_ASKED = re.compile(r"Tried to allocate ([\d.]+ \w+)")
_CARD = re.compile(r"total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+) is free")
_ALLOCATED = re.compile(
    r"Of the allocated memory ([\d.]+ \w+) is allocated by PyTorch, "
    r"(?:with ([\d.]+ \w+) allocated in private pools[^,]*, )?"
    r"and ([\d.]+ \w+) is reserved by PyTorch but unallocated"
)


def _ooms(snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure]:
    found = [one for device in mr.oom(snap).devices for one in device.ooms]
    yield Figure("oom: how many", len(truth["ooms"]), len(found))
    for (text, cause), one in zip(truth["ooms"], found, strict=False):
        if cause is not None:
            yield Figure("oom: cause", cause, one.cause)
        asked, card, allocated = (kind.search(text) for kind in (_ASKED, _CARD, _ALLOCATED))
        if not (asked and card and allocated):
            raise ValueError(f"an error of another form: {text}")
        yield Figure("oom: asked", asked[1], _size(one.request_bytes))
        yield Figure("oom: free", card[2], _size(one.device_free_bytes or 0))
        yield Figure("oom: allocated", allocated[1], _size(one.allocated_bytes))
        cached = one.reserved_bytes - one.allocated_bytes
        yield Figure("oom: reserved, not allocated", allocated[3], _size(cached))


def _size(n_bytes: int) -> str:
    """Return a size as PyTorch writes it."""
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n_bytes > unit:
            return f"{n_bytes / unit:.2f} {name}"
    return f"{n_bytes} bytes"


# --- steps, leaks, categories --------------------------------------------------------------------


def _steps(snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure]:
    peaks = truth["peaks"]
    for first, last in truth["steps"]:
        peaks.append(_peak(truth, first, last))
    if peaks:
        found = mr.steps(snap, measure="allocated", annotation="truth_step").devices[0]
        yield from _each_step("steps by name", peaks, found.steps)
    if truth["stepped"]:
        found = mr.steps(snap, measure="allocated").devices[0]
        # Setup code before the first step's end is part of that step.
        peaks = [_peak(truth, *pair) for pair in pairwise(truth["stepped"])]
        yield from _each_step("steps", peaks, found.steps)


def _each_step(what: str, peaks: list[int], steps: Any) -> Iterator[Figure]:
    yield Figure(f"{what}: how many", len(peaks), len(steps))
    for i, (peak, step) in enumerate(zip(peaks, steps, strict=False)):
        yield Figure(f"{what}: peak of {i}", peak, step.peak_bytes)


def _peak(truth: dict[str, Any], first: int, last: int) -> int:
    """Return `torch.cuda.max_memory_allocated()` between two moments."""
    inside = [one for one in truth["moments"] if first < one["snapshot"] <= last]
    return max(int(one["figures"][0]["allocated"]["peak"]) for one in inside)


def _leaks(snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure]:
    if truth["leaks"] is None:
        return
    found = mr.leaks(snap).devices[0]
    yield Figure("leaks: judged", True, found.judged)
    # The innermost frame of the program's own code, below any C++ operators.
    codes = [(one.frames[one.user[0]] if one.user else one.frames[0], one) for one in found.leaks]
    places = {(frame.file, frame.line): one for frame, one in codes}
    yield Figure("leaks: where", {leak[:2] for leak in truth["leaks"]}, set(places))
    for file, line, rate in truth["leaks"]:
        one = places.get((file, line))
        if one is not None and abs(one.bytes_per_step - rate) > one.bytes_per_step_error:
            # If a leak grows only every third step, its rate is only approximate.
            yield Figure(f"leaks: rate of line {line}", rate, one.bytes_per_step)
        else:
            yield Figure(f"leaks: rate of line {line}", rate, rate)


def _categories(snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure]:
    if not truth["categories"]:
        return
    events = places(snap, 0, truth["taken"])
    for moment, sums in truth["categories"]:
        at = events[moment]
        assert at is not None
        caught = mr.at(snap, mr.When("event", at), caught=True).devices[0].caught
        assert isinstance(caught, RulesCaught)
        for name, n_bytes in sums.items():
            category = name.replace("_", " ")
            found = sum(rule.bytes for rule in caught.rules if rule.category == category)
            yield Figure(f"categories at {at}: {category}", n_bytes, found)
