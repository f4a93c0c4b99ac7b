"""Compare what `leaks` and `steps` say about a planted program's recording with the truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.leaks.records import DeviceLeaks, GrownGroup
from memreplay.errors import NothingToTellError
from tests.truth.compare import Figure, places

LEAST = 4  # bytes per step; leaks larger than this must not be missed
SURVIVES = 20  # steps; leaks that last longer than this must not be missed
NEAR = 0.15  # for rates
GUESSED = ("stacks", "sizes", "usage", "windows", "whole")
"""Sources of steps that are called a guess."""

FALSE, MISSED, RATE, STEPS, GROWS, CATEGORIES, ERROR = VERDICTS = (
    "false leak",
    "missed leak",
    "rate off",
    "steps wrong",
    "growing step not said",
    "categories",
    "failed",
)


class Judged(NamedTuple):
    """The errors in the results for one recording."""

    name: str
    kind: str
    wrong: tuple[tuple[str, str], ...]
    """Pairs of a verdict and its explanation."""
    unsure: bool
    """Whether memreplay gave no verdict: the recording is too short, or growth isn't called a leak.
    """
    guessed: bool
    """Whether memreplay says that the recording's steps are a guess."""


class Window(NamedTuple):
    """The program's steps that a recording covers."""

    edges: list[float]
    """Where the recording's steps begin and end, in steps of the program: 2.5 is halfway through
    the third.
    """
    whole: int
    """The number of complete steps of the program in the recording."""


def judge(snapshot: Path) -> Judged:
    """Judge everything that can be judged about one recording."""
    truth = json.loads(snapshot.with_suffix(".truth.json").read_text(encoding="utf-8"))
    snap = mr.open(str(snapshot))
    try:
        device = mr.leaks(snap, top=0).devices[0]
    except NothingToTellError as error:
        return Judged(truth["name"], truth["kind"], ((ERROR, str(error)),), False, False)
    source = device.step_source
    guessed = source is None or source.found_by in GUESSED or source.doubt is not None
    wrong: list[tuple[str, str]] = []
    pieces = _edges(snap, device) if source is not None else []
    window = _window(snap, truth, pieces)
    wrong += _steps(truth, device, window, guessed)
    found, unsure = _leaks(truth, device, window)
    wrong += found
    if truth["kind"] == "recorder":
        wrong += [
            (CATEGORIES, f"{one.what}: {one.truth}, said {one.memreplay}")
            for one in _categories(snap, truth)
            if one.truth != one.memreplay
        ]
    return Judged(truth["name"], truth["kind"], tuple(wrong), unsure, guessed)


def _edges(snap: mr.Snapshot, device: DeviceLeaks) -> list[int]:
    """Return the first event of each step found, and the event after the last step."""
    from memreplay.analysis.selecting.choice import chosen_usages
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.analysis.steps.boundaries import find_steps, windows

    (whole,) = chosen_usages(snap, Selection())
    assert device.step_source is not None
    if device.step_source.found_by == "windows":
        pieces = windows(whole).pieces
    else:
        found = find_steps(snap, whole)
        pieces = found.pieces
    pieces = pieces[: device.step_count]  # the last step's end may be missing
    return [one.first for one in pieces] + [one.stop for one in pieces[-1:]]


def _window(snap: mr.Snapshot, truth: dict[str, Any], edges: list[int]) -> Window:
    """Convert events to positions in the program's steps, using the number of allocations so
    far.
    """
    actions = snap.events.action
    is_alloc = np.zeros(len(actions), bool)
    for code in set(actions.tolist()):
        if snap.action_name(code) == "alloc":
            is_alloc |= actions == code
    before = np.concatenate([[0], np.cumsum(is_alloc)])
    # Allocations made before each event, counted from the program's start.
    made = truth["allocated"] - int(before[-1]) + before
    ends = truth["ends"]
    steps = [
        float(one) for one in np.interp([made[edge] for edge in edges], ends, range(len(ends)))
    ]
    whole = sum(end >= made[0] for end in ends) - 1
    return Window(steps, max(whole, 0))


def _steps(
    truth: dict[str, Any], device: DeviceLeaks, window: Window, guessed: bool
) -> list[tuple[str, str]]:
    if not truth["stepped"] or guessed:
        return []
    assert device.step_source is not None
    together = device.step_source.taken_together
    # The first edge may precede the first mark, and the last may follow the last mark.
    whole = window.whole // truth["every"]
    if not whole - 2 <= device.step_count * together <= whole + 1:
        return [(STEPS, f"{device.step_count} for {whole}, by {device.step_source.found_by}")]
    return []


def _leaks(
    truth: dict[str, Any], device: DeviceLeaks, window: Window
) -> tuple[list[tuple[str, str]], bool]:
    wrong: list[tuple[str, str]] = []
    bare = truth["kind"] == "bare"
    sure = _says_it_is_short(device)
    lines = {line: mark for mark, line in truth["lines"].items()}
    found: dict[str, tuple[float, float]] = {}
    for one in device.leaks:
        mark = _mark(one, truth["file"], lines)
        if bare or (truth["spread"] and truth["leaks"]):
            mark = "all"
        if mark is None:
            wrong.append((FALSE, f"{one.label}: {one.bytes_per_step} B"))
            continue
        rate, error = found.get(mark, (0.0, 0.0))
        found[mark] = rate + one.bytes_per_step, error + one.bytes_per_step_error
    if device.whole_bytes_per_step and not device.leaks:
        found["all"] = device.whole_bytes_per_step, device.whole_bytes_per_step * NEAR
    told = sure
    if device.unless == "late_state" and not truth["leaks"]:
        return [], True  # growth that isn't called a leak
    if not window.edges:
        return wrong, True
    first, last = window.edges[device.warm_up_steps], window.edges[-1]
    count = device.step_count - device.warm_up_steps
    true = {
        mark: _grew(rates, first, last) / count for mark, rates in truth["leaks"].items() if count
    }
    true = {mark: rate for mark, rate in true.items() if rate}
    if "all" in found:
        if not true:
            wrong.append((FALSE, f"{found['all'][0]:.0f} B of all"))
            return wrong, told
        true = {"all": sum(true.values())}
        found = {"all": (sum(r for r, _ in found.values()), sum(e for _, e in found.values()))}
    for mark, rate in true.items():
        if mark not in found:
            ages = last - max(first, truth["grows_from"])
            if rate >= LEAST and ages >= SURVIVES:
                wrong.append((MISSED, f"{mark}: {rate:.0f} B a step for {ages:.0f} steps"))
            elif not told:
                wrong.append((MISSED, f"{mark}: {rate:.0f} B a step, in few steps, without a word"))
            continue
        said, error = found[mark]
        if abs(said - rate) > max(NEAR * rate, error):
            wrong.append((RATE, f"{mark}: {said:.0f} ±{error:.0f} B for {rate:.0f}"))
    wrong += [
        (FALSE, f"{mark}: {rate:.0f} B") for mark, (rate, _) in found.items() if mark not in true
    ]
    if truth["grows"] and not device.growing_bytes_per_step:
        wrong.append((GROWS, f"{truth['grows']} B a step more"))
    return wrong, told


def _categories(snap: mr.Snapshot, truth: dict[str, Any]) -> Iterator[Figure]:
    """Compare the bytes that the program's own objects held with memreplay's categories, including
    likely ones.
    """
    if not truth["categories"]:
        return
    events = places(snap, 0, truth["taken"])
    usage, grouper = snap.replay(0).measure("requested"), Grouper(snap, "category")
    for moment, sums in truth["categories"]:
        at = events[moment]
        assert at is not None
        found: Counter[str] = Counter()
        for group in grouper.groups(usage, at, 0)[0]:
            found[group.label.removesuffix(" (likely)")] += group.bytes
        for name, n_bytes in sums.items():
            category = name.replace("_", " ")
            yield Figure(f"{category} at event {at}", n_bytes, found[category])


def _grew(rates: list[int], first: float, last: float) -> float:
    """Return the bytes leaked between two moments, given in steps."""
    sums = np.concatenate([[0], np.cumsum(rates)])
    return float(np.diff(np.interp([first, last], range(len(sums)), sums))[0])


def _mark(one: GrownGroup, file: str, lines: dict[int, str]) -> str | None:
    """Return the mark on the program's own line that allocates a leak, or "NO STACK"."""
    own = [frame.line for frame in one.frames if frame.file == file]
    if not own:
        return "NO STACK"
    return next((lines[line] for line in own if line in lines), None)


def _says_it_is_short(device: DeviceLeaks) -> bool:
    return bool(device.not_judged_reason or device.unsure)
