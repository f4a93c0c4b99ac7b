"""Compare memreplay's simulation of a recording with PyTorch's allocator, in the same run or in
another run of the same program.

The allocator's actions are identified by the program's requests: a segment is allocated or freed
for the n-th request, and a block belongs to the n-th request. This way, runs with different
addresses can be compared.
"""

from __future__ import annotations

import os
import pickle
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import memreplay as mr
from memreplay import _core
from memreplay.engine.simulate import _simulating
from memreplay.snapshot.alloc_conf import AllocatorSettings
from memreplay.snapshot.simulated import Simulated
from tests.truth.compare import Figure

STATES = {
    "inactive": _simulating.FREE,
    "active_allocated": _simulating.USED,
    "active_pending_free": _simulating.PENDING,
    "active_awaiting_free": _simulating.PENDING,
}
SIGNS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}

Pool = tuple[int, int]


class Call(NamedTuple):
    """A driver call."""

    before: int
    """The number of requests before the one that caused this call."""
    action: str
    bytes: int
    stream: int
    pool: Pool


class Request(NamedTuple):
    """A request or a free by the program."""

    kind: str
    """alloc, oom, free_requested."""
    number: int
    """The request's number; for a free, the number of the request that allocated the block."""
    bytes: int
    """The requested size; for an oom, the size as rounded by the allocator."""
    stream: int


class Segment(NamedTuple):
    """A final segment, or a mapped range in an expandable segment."""

    pool: Pool
    stream: int
    small: bool
    blocks: tuple[tuple[int, int, int, int], ...]
    """In address order: size, state, requested bytes, and the number of its request (-1: none)."""


class Ran:
    """A device in a program's run: its trace, and PyTorch's statistics at the end."""

    def __init__(self, snapshot: Path, device: int = 0) -> None:
        self.path = snapshot
        self.device = device

    def forget(self) -> None:
        """Release all data that was read."""
        for name in [name for name in vars(self) if name not in ("path", "device")]:
            delattr(self, name)

    @cached_property
    def raw(self) -> dict[str, Any]:
        with self.path.open("rb") as file:
            found: dict[str, Any] = pickle.load(file)
        return found

    @property
    def trace(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.raw["device_traces"][self.device]
        return found

    @cached_property
    def truth(self) -> dict[str, Any]:
        with self.path.with_suffix(".truth").open("rb") as file:
            found: dict[str, Any] = pickle.load(file)
        return found

    @cached_property
    def replay(self) -> mr.Replay:
        return mr.open(os.fspath(self.path)).replay(self.device)

    @cached_property
    def numbers(self) -> list[int]:
        """Return the number of requests before each event, and in total."""
        asked = (one["action"] in ("alloc", "oom") for one in self.trace)
        return list(accumulate(asked, initial=0))

    @cached_property
    def requests(self) -> list[Request]:
        """Return the program's actions."""
        owners: dict[int, int] = {}
        found = []
        for number, one in zip(self.numbers, self.trace, strict=False):
            kind = one["action"]
            if kind in ("alloc", "oom"):
                found.append(Request(kind, number, one["size"], one["stream"]))
                if kind == "alloc":
                    owners[one["addr"]] = number
            elif kind == "free_requested":
                found.append(Request(kind, owners.get(one["addr"], -1), one["size"], one["stream"]))
        return found

    def up_to(self, until: int | None) -> list[Request]:
        """Return the program's actions before a request."""
        stop = (
            i
            for i, one in enumerate(self.requests)
            if one.number == until and one.kind != "free_requested"
        )
        return self.requests[: next(stop, None)]

    @cached_property
    def completed(self) -> list[tuple[int, int]]:
        """Return a pair for each free that waited for a stream: the number of the first request
        after the free completed, and the number of the request that allocated the block.
        """
        owners: dict[int, int] = {}
        found = []
        last: tuple[str, int | None] = "", None
        for number, one in zip(self.numbers, self.trace, strict=False):
            if one["action"] == "alloc":
                owners[one["addr"]] = number
            elif one["action"] == "free_completed" and last != ("free_requested", one["addr"]):
                found.append((number, owners.get(one["addr"], -1)))
            last = one["action"], one.get("addr")
        return sorted(found)

    @cached_property
    def calls(self) -> list[Call]:
        return [
            Call(number, one["action"], one["size"], one["stream"], tuple(one["pool_id"]))
            for number, one in zip(self.numbers, self.trace, strict=False)
            if one["action"] in SIGNS
        ]

    @cached_property
    def segments(self) -> list[Segment]:
        owners: dict[int, int] = {}
        for number, one in zip(self.numbers, self.trace, strict=False):
            if one["action"] == "alloc":
                owners[one["addr"]] = number
        found = []
        for segment in self.raw["segments"]:
            if segment["device"] != self.device:
                continue
            blocks = []
            for block in segment["blocks"]:
                used = block["state"] != "inactive"
                owner = owners[block["address"]] if used else -1
                requested = block["requested_size"] if used else 0
                blocks.append((block["size"], STATES[block["state"]], requested, owner))
            pool, small = tuple(segment["segment_pool_id"]), segment["segment_type"] == "small"
            found.append(Segment(pool, segment["stream"], small, tuple(blocks)))
        return sorted(found)

    @cached_property
    def failed(self) -> list[int]:
        """Return the numbers of the failed requests."""
        return [one.number for one in self.requests if one.kind == "oom"]

    @cached_property
    def statistics(self) -> dict[str, int]:
        """Return torch.cuda.memory_stats() at the end, for everything that ran."""
        import json

        said = json.loads(self.path.with_suffix(".json").read_text(encoding="utf-8"))
        one = said["statistics"][self.device]
        return {
            "reserved peak": one["reserved_bytes.all.peak"],
            "active peak": one["active_bytes.all.peak"],
            "retries": one["num_alloc_retries"],
            "driver allocs": one["num_device_alloc"],
            "driver frees": one["num_device_free"],
            "ooms": one["num_ooms"],
        }


class Made:
    """The results of simulating a run's recording."""

    def __init__(self, of: Ran, settings: AllocatorSettings, total: int | None) -> None:
        self.of = of
        self.simulated = Simulated(of.replay, settings, total, log=True)
        self.native = self.simulated.native

    def pool(self, key: int | None) -> Pool:
        return self.of.replay.pool_of(key) or (0, 0)

    @cached_property
    def calls(self) -> list[Call]:
        return [
            Call(self.of.numbers[at], _core.ACTIONS[code], size, stream, self.pool(pool))
            for at, code, _, size, stream, pool in self.native.log()
        ]

    @cached_property
    def segments(self) -> list[Segment]:
        found = []
        for _, stream, pool, small, _, blocks in self.native.segments():
            runs: list[list[tuple[int, int, int, int]]] = [[]]
            for size, state, requested, owner in blocks:
                if state == _simulating.UNMAPPED:
                    runs.append([])
                else:
                    number = -1 if owner is None else self.of.numbers[owner]
                    runs[-1].append((size, state, requested, number))
            found += [Segment(self.pool(pool), stream, small, tuple(one)) for one in runs if one]
        return sorted(found)

    @cached_property
    def failed(self) -> list[int]:
        return [self.of.numbers[at] for at in self.native.failed()]

    @property
    def statistics(self) -> dict[str, int]:
        outcome = self.simulated.outcome
        return {
            "reserved peak": outcome.reserved_peak_bytes,
            "active peak": outcome.active_peak_bytes,
            "retries": outcome.alloc_retries,
            "driver allocs": outcome.driver_allocs,
            "driver frees": outcome.driver_frees,
            "ooms": outcome.oom_count,
        }


class Compared(NamedTuple):
    """A simulation compared with a run."""

    figures: list[Figure]
    until: str
    """Why the comparison stops before the end; empty if it doesn't."""


FAILED = "up to a request that failed in one of the two"
ROUNDED = "up to a request that failed in the recording, which has it as it was rounded there"
WAITED = "up to where streams ended at another time, as they do when a request waits for all"


def compare(of: Ran, settings: AllocatorSettings, total: int | None, real: Ran) -> Compared | None:
    """Simulate a recording with these settings on a card of this size, and compare a run with them.
    Return None if the program made different requests before anything failed.
    """
    made = Made(of, settings, total)
    if of is real:
        return Compared(_whole(made, real), "")
    failed = min([*of.failed[:1], *real.failed[:1]], default=None)
    if of.up_to(failed) != real.up_to(failed):
        return None
    waited = _other_wait(of, real, failed)
    if waited is not None:
        return Compared(_up_to(made, real, waited + 1), WAITED)
    if of.requests == real.requests:
        return Compared(_whole(made, real), "")
    assert failed is not None
    if failed in of.failed and of.replay.settings.divisions != settings.divisions:
        return Compared(_up_to(made, real, failed), ROUNDED)
    return Compared([*_up_to(made, real, failed + 1), *_of_failure(made, real, failed)], FAILED)


def _other_wait(one: Ran, other: Ran, until: int | None) -> int | None:
    """Return the first request before which the two runs differ in completed frees."""
    mine, others = (
        {pair for pair in ran.completed if until is None or pair[0] < until} for ran in (one, other)
    )
    return min((number for number, _ in mine ^ others), default=None)


def _whole(made: Made, real: Ran) -> list[Figure]:
    want, got = real.statistics, made.statistics
    return [
        Figure("which requests fail", real.failed, made.failed),
        *_of_calls(real.calls, made.calls),
        *(Figure(name, want[name], got[name]) for name in want),
        *_of_segments(real.segments, made.segments),
    ]


def _up_to(made: Made, real: Ran, stop: int) -> list[Figure]:
    """Return the driver calls for requests before this one."""
    want = [call for call in real.calls if call.before < stop]
    got = [call for call in made.calls if call.before < stop]
    failed = [[at for at in one if at < stop] for one in (real.failed, made.failed)]
    return [
        *_of_calls(want, got),
        Figure("reserved peak", _peak(want), _peak(got)),
        Figure("which requests fail", failed[0], failed[1]),
    ]


def _of_failure(made: Made, real: Ran, failed: int) -> list[Figure]:
    """If both runs end with the same request, compare how often each run retried."""
    if not (real.truth["ended_by_oom"] and real.failed == [failed] == made.failed):
        return []
    return [Figure("retries", real.statistics["retries"], made.statistics["retries"])]


def _peak(calls: list[Call]) -> int:
    sums = accumulate((SIGNS[call.action] * call.bytes for call in calls), initial=0)
    return max(sums)


def _of_calls(want: list[Call], got: list[Call]) -> list[Figure]:
    """Compare all driver calls, up to the first that differs."""
    if want == got:
        return [Figure("calls of the driver", len(want), len(got))]
    at = next(
        (i for i, pair in enumerate(zip(want, got, strict=False)) if pair[0] != pair[1]),
        min(len(want), len(got)),
    )
    return [
        Figure(f"call {at} of {len(want)} of the driver", want[at : at + 1], got[at : at + 1]),
    ]


def _of_segments(want: list[Segment], got: list[Segment]) -> list[Figure]:
    if want == got:
        return [Figure("segments in the end", len(want), len(got))]
    return [
        Figure(
            "segments in the end",
            [one for one in want if one not in got][:1],
            [one for one in got if one not in want][:1],
        )
    ]
