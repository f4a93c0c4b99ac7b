"""Read PyTorch's own statistics while a program runs, as the truth for its figures.

At random moments between two Python calls, and when the program asks for it, this reads
`memory_stats()` and `memory_snapshot()`. `memory_snapshot()` leaves a `snapshot` event in each
device's trace, so counting these events locates the moment in the trace, whichever thread it comes
from. Peaks are read and reset at each moment, so each moment has the peaks since the previous one.

This runs in the program's process, which has torch but not memreplay.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

MEASURES = ("requested", "active", "allocated", "reserved")
AT_RANDOM = 50  # minimum number of moments, if the program is long enough
MAPS = 6  # number of moments that keep their whole map


def _reset(counted: dict[str, dict[str, int]], resets: bool) -> dict[str, dict[str, int]]:
    """Return the counts of allocations and frees, with peaks as they are after a reset."""
    if not resets:
        return {}
    return {kind: {**one, "peak": one["current"]} for kind, one in counted.items()}


class Truth:
    """All statistics for one process, in the order of the moments."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.moments: list[dict[str, Any]] = []
        self.taken = 0
        self.gap = 8
        self.lock = threading.RLock()
        self.busy = False
        self.next = 0
        self.resets = True  # peaks are read here, not by the program
        # Whether another thread interfered while a peak was reset, so that the peak may be lost.
        self.raced = False
        self.found: dict[str, Any] = {
            "steps": [],
            "peaks": [],
            "stepped": [],
            "ooms": [],
            "ended_by_oom": False,
            "leaks": None,
            "categories": [],
            "beside": [],
            "timeline": [],
        }

    def begin(self) -> None:
        """Start taking moments, because the recording has begun."""
        self.moments.clear()
        self.taken = 0
        self.moment(kept=True)
        sys.setprofile(self.called)

    def begin_quietly(self) -> None:
        """Take only the moments that the program asks for, and reset no peaks."""
        self.resets = False
        self.moment(kept=True)

    def quiet(self) -> None:
        """Take no more moments except the last, because the program resets peaks itself."""
        torch.cuda.init()
        sys.setprofile(None)
        self.resets = False

    def called(self, *_: object) -> None:
        """Run between any two calls; sometimes take a moment."""
        self.next -= 1
        if self.next < 0 and not self.busy:
            self.next = self.random.randint(0, 2 * self.gap)
            self.moment()

    def moment(self, *, kept: bool = False) -> int:
        """Read each device's current statistics; return the number of moments before this one."""
        with self.lock:
            self.busy = True  # calls made here must not trigger another moment
            try:
                return self.read(kept=kept)
            finally:
                self.busy = False

    def read(self, *, kept: bool) -> int:
        devices = range(torch.cuda.device_count())
        while True:
            before = [torch._C._cuda_memoryStats(i) for i in devices]
            segments = memory_snapshot()
            self.taken += 1
            stats = [torch._C._cuda_memoryStats(i) for i in devices]
            if stats == before:  # otherwise another thread interfered
                break
        kinds = ("current", "peak") if self.resets and not self.raced else ("current",)
        figures = [
            {
                name: {one: stats[i][f"{name}_bytes"]["all"][one] for one in kinds}
                for name in MEASURES
            }
            for i in devices
        ]
        for i in devices:
            if self.resets:
                # Call the original function directly, so that threads rarely interfere.
                reset = torch._C._cuda_resetPeakMemoryStats
                getattr(reset, "__wrapped__", reset)(i)
            figures[i]["held"] = {"current": held(segments, i)}
        after = [torch._C._cuda_memoryStats(i) for i in devices]
        self.raced = [one["allocation"] for one in after] != [
            {**one["allocation"], **_reset(one["allocation"], self.resets)} for one in stats
        ]
        self.moments.append(
            {
                "snapshot": self.taken - 1,
                "figures": figures,
                "segments": segments,
                "kept": kept,
                "retries": [one["num_alloc_retries"] for one in stats],
                "ooms": [one["num_ooms"] for one in stats],
                "events": [
                    {
                        "alloc": one["allocation"]["all"]["allocated"],
                        "free_requested": one["allocation"]["all"]["freed"],
                        "free_completed": one["active"]["all"]["freed"],
                    }
                    for one in stats
                ],
            }
        )
        if sum(not one["kept"] for one in self.moments) > 2 * AT_RANDOM:
            self.thin()
        return self.taken - 1

    def thin(self) -> None:
        """Drop half of the random moments; the moment after each takes over its peaks."""
        self.gap *= 2
        left: list[dict[str, Any]] = []
        dropped: dict[str, Any] | None = None
        for one in self.moments:
            if dropped is not None:
                for mine, old in zip(one["figures"], dropped["figures"], strict=True):
                    for name in MEASURES:
                        peaks = [one[name].pop("peak", None) for one in (mine, old)]
                        if None not in peaks:
                            mine[name]["peak"] = max(peaks)
            drop = not one["kept"] and self.random.random() < 0.5
            dropped = one if drop else None
            if not drop:
                left.append(one)
        if dropped is not None:  # keep the last moment: no later one could take over its peak
            left.append(dropped)
        self.moments[:] = left

    def end(self, path: str) -> None:
        """Take the last moment; then write everything, including the maps of some moments."""
        sys.setprofile(None)
        gc.collect()
        gc.disable()  # a later collection would free blocks after the last moment
        self.moment(kept=True)
        chosen = self.random.sample(range(len(self.moments)), min(MAPS, len(self.moments)))
        for i, one in enumerate(self.moments):
            if i not in chosen and one is not self.moments[-1]:
                del one["segments"]
        with open(path, "wb") as file:
            pickle.dump(
                {
                    "torch": str(torch.__version__),
                    "moments": self.moments,
                    "taken": self.taken,
                    **self.found,
                },
                file,
            )


def memory_snapshot() -> Any:
    """Return the segments with their blocks, as PyTorch lists them; without the trace, if this
    PyTorch can leave it out.
    """
    try:
        return torch.cuda.memory_snapshot(include_traces=False)
    except TypeError:  # before about 2.10
        return torch.cuda.memory_snapshot()


def held(segments: Any, device: int) -> int:
    """Return the requested bytes of everything still referenced, which no statistic shows."""
    return sum(
        block["requested_size"]
        for segment in segments
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    )


_truth = Truth()
begin, moment, end, quiet = _truth.begin, _truth.moment, _truth.end, _truth.quiet
begin_quietly = _truth.begin_quietly


@contextlib.contextmanager
def step() -> Iterator[None]:
    """Run a training step under a name that can be given to `memreplay steps`."""
    first = moment(kept=True)
    with torch.profiler.record_function("truth_step"):
        yield
        last = moment(kept=True)
    _truth.found["steps"].append((first, last))


def stepped() -> None:
    """Note that an optimizer has stepped, which ends a training step."""
    _truth.found["stepped"].append(moment(kept=True))


def peak(n_bytes: int) -> None:
    """Return torch's peak for a step, by the names from `step`."""
    _truth.found["peaks"].append(n_bytes)


def begin_again() -> None:
    """Begin the recording here, so that it doesn't include anything from before."""
    sys.setprofile(None)  # a moment between the two would be in the trace but not counted
    torch.cuda.memory._record_memory_history(None)  # an older torch uses this to clear the trace
    try:
        torch.cuda.memory._record_memory_history(stacks="python", clear_history=True)
    except TypeError:
        torch.cuda.memory._record_memory_history(stacks="python")
    begin()


def oom(error: BaseException, cause: str | None) -> None:
    """Record a failed request: PyTorch's message, and the reason, if known."""
    _truth.found["ooms"].append((str(error), cause))


def ended_by(error: BaseException, cause: str | None) -> None:
    """Record a failed request that ended the program."""
    oom(error, cause)
    _truth.found["ended_by_oom"] = True


def leak(path: str, mark: str, bytes_per_step: int) -> None:
    """Declare that the program leaks on its line with this comment."""
    with open(path, encoding="utf-8") as file:
        (line,) = (i for i, one in enumerate(file, 1) if one.endswith(f"# {mark}\n"))
    _truth.found["leaks"] = [*(_truth.found["leaks"] or []), (path, line, bytes_per_step)]


def no_leak() -> None:
    """Declare that nothing leaks, even if memory grows."""
    _truth.found["leaks"] = []


def categories(**sums: int) -> None:
    """Record the current bytes in these categories, from the program's own tensors."""
    _truth.found["categories"].append((moment(kept=True), sums))


def beside(name: str, sums: dict[str, int] | None = None) -> None:
    """Record the sums that PyTorch's MemTracker reports now; None marks its start."""
    _truth.found["beside"].append((moment(kept=True), name, sums))


def timeline(events: list[dict[str, Any]]) -> None:
    """Record PyTorch's profiler's values for all allocations."""
    _truth.found["timeline"] += events


def nbytes(tensors: Any) -> int:
    """Return the bytes in these tensors' storages, each counted once."""
    storages = {one.untyped_storage().data_ptr(): one for one in tensors if one is not None}
    return sum(one.untyped_storage().nbytes() for one in storages.values())
