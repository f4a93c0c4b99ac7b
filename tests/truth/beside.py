"""Compare PyTorch's MemTracker and profiler with the recorder's notes.

docs/categories.md says where their rules differ; the tables in this file list exactly those
differences.
"""

from __future__ import annotations

import base64
import pickle
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.truth.compare import Figure

ROUNDED = 512  # requests are rounded up to this, and both tools count rounded sizes


class Noted(NamedTuple):
    """One allocation."""

    bytes: int
    category: str
    phase: str


def figures(snapshot: Path, truth: dict[str, Any]) -> Iterator[Figure]:
    with snapshot.open("rb") as file:
        raw = pickle.load(file)
    live: dict[int, Noted] = {}
    made = []
    moments = 0
    said: dict[int, Any] = {moment: (name, sums) for moment, name, sums in truth["beside"]}
    highest: int | None = None
    events = raw["device_traces"][0]
    for i, (event, noted) in enumerate(zip(events, noted_of(raw), strict=True)):
        if event["action"] == "alloc":
            assert noted is not None
            live[event["addr"]] = noted
            made.append(noted)
            after = events[i + 1]
            inside = after["action"] == "free_requested" and after["addr"] == event["addr"]
            # MemTracker sees the results of operators, not their temporaries.
            if highest is not None and not inside:
                highest = max(highest, sum(one.bytes for one in live.values()))
        elif event["action"] == "free_requested":
            live.pop(event["addr"], None)
        elif event["action"] == "snapshot":
            if moments in said:
                name, sums = said[moments]
                if name == "begins":
                    highest = sum(one.bytes for one in live.values())
                elif name == "peak":
                    yield Figure("MemTracker's peak", sums["Total"], highest)
                else:
                    yield from mem_tracker(f"MemTracker at {moments}", sums, live.values())
            moments += 1
    if truth["timeline"]:
        yield from profiler(truth["timeline"], made)


def noted_of(raw: Any) -> Iterator[Noted | None]:
    """Return the note on each event of the first device."""
    noted = raw["memreplay"]["allocations"]
    kinds = list(struct.iter_unpack("<3I", unpacked(noted["kinds"])))
    of_events = struct.iter_unpack("<I", unpacked(noted["events"][0]))
    for event, (kind,) in zip(raw["device_traces"][0], of_events, strict=True):
        if not kind:
            yield None
            continue
        category, phase, _ = kinds[kind - 1]
        size = -(-event["size"] // ROUNDED) * ROUNDED
        yield Noted(size, noted["categories"][category], noted["phases"][phase])


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


# --- MemTracker -----------------------------------------------------------------------------------

SAME = {
    "parameters": "Parameter",
    "buffers": "Buffer",
    "gradients": "Gradient",
    "optimizer state": "Optstate",
}
BY_PHASE = {"optimizer": "Optstate", "backward": "Temp"}
"""It only has temporaries of the backward pass."""
FORWARD = "Activation, Other"
"""Everything else, and values it was given: inputs, temporaries, values in between."""


def mem_tracker(name: str, sums: dict[str, int], live: Any) -> Iterator[Figure]:
    """Check that the recorder's notes, under MemTracker's rules, are equal at every moment."""
    found: Counter[str] = Counter()
    for one in live:
        found[SAME.get(one.category) or BY_PHASE.get(one.phase, FORWARD)] += one.bytes
    for category in ("Parameter", "Buffer", "Gradient", "Optstate", "Temp"):
        yield Figure(f"{name}: {category}", sums[category], found[category])
    yield Figure(f"{name}: {FORWARD}", sums["Activation"] + sums["Other"], found[FORWARD])
    yield Figure(f"{name}: total", sums["Total"], found.total())


# --- the profiler ---------------------------------------------------------------------------------

NAMES = {
    "PARAMETER": "parameters",
    "OPTIMIZER_STATE": "optimizer state",
    "GRADIENT": "gradients",
    "INPUT": "inputs",
    "ACTIVATION": "activations",
    "TEMPORARY": "temporary",
    "AUTOGRAD_DETAIL": "autograd detail",
}
OTHER_RULE = {
    # The profiler categorizes memory by data flow: memory freed before the backward pass isn't an
    # activation.
    ("ACTIVATION", "temporary", "forward"),
    # These tensors were allocated before the first module ran, and no module uses them.
    ("INPUT", "other", "start"),
    # The profiler has no name for allocations inside kernels, and for some casts in the backward
    # pass.
    ("None", "temporary", "forward"),
    ("None", "temporary", "backward"),
    ("None", "autograd detail", "backward"),
}


def profiler(timeline: Any, made: list[Noted]) -> Iterator[Figure]:
    """Return each allocation in order, with the times it was allocated and freed."""
    created = [one for one in timeline if one["action"] == "CREATE"]
    yield Figure("the profiler's allocations", len(created), len(made))
    noted = {}
    for i, (theirs, ours) in enumerate(zip(created, made, strict=False)):
        yield Figure(f"allocation {i}: bytes", theirs["bytes"], ours.bytes)
        yield Figure(f"allocation {i}", *sides(theirs["category"], ours))
        noted[theirs["key"]] = ours
    for i, theirs in enumerate(timeline):
        if theirs["action"] == "DESTROY" and theirs["key"] is not None:
            yield Figure(f"end {i}", *sides(theirs["category"], noted[theirs["key"]]))


def sides(theirs: str, ours: Noted) -> tuple[str, str]:
    if (theirs, ours.category, ours.phase) in OTHER_RULE:
        return theirs, theirs
    return NAMES.get(theirs, theirs), f"{ours.category}"
