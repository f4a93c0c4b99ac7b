"""What a program is told by PyTorch's allocator while it runs: the truth to hold figures against.

At random moments between two calls of Python's, and where the program asks for it, this reads
`memory_stats()` and `memory_snapshot()`. The latter leaves a `snapshot` event in the trace, of each
device, so the moment's place among the events is known whatever thread made them: the events of
this kind are counted. Peaks are read and reset at each moment, so each one has those since the one
before it.

It runs beside the program, in a process that has torch and not memreplay.
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
AT_RANDOM = 50  # moments, at least, of a program that is long enough
MAPS = 6  # moments that keep their whole map


def _reset(counted: dict[str, dict[str, int]], resets: bool) -> dict[str, dict[str, int]]:
    """How often it was allocated and freed, with peaks as they are after a reset."""
    if not resets:
        return {}
    return {kind: {**one, "peak": one["current"]} for kind, one in counted.items()}


class Truth:
    """All that one process was told, in the order of its moments."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.moments: list[dict[str, Any]] = []
        self.taken = 0
        self.gap = 8
        self.lock = threading.RLock()
        self.busy = False
        self.next = 0
        self.resets = True  # peaks are this one's to read, and not the program's
        self.raced = False  # another thread came while the last one was reset: it may be lost
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
        """From here on moments are taken: the recording has begun."""
        self.moments.clear()
        self.taken = 0
        self.moment(kept=True)
        sys.setprofile(self.called)

    def begin_quietly(self) -> None:
        """From here on moments are those that the program asks for, and no peak is reset."""
        self.resets = False
        self.moment(kept=True)

    def quiet(self) -> None:
        """No more moments but the last: the program resets peaks by itself."""
        torch.cuda.init()
        sys.setprofile(None)
        self.resets = False

    def called(self, *_: object) -> None:
        """Between any two calls: now and then this is a moment."""
        self.next -= 1
        if self.next < 0 and not self.busy:
            self.next = self.random.randint(0, 2 * self.gap)
            self.moment()

    def moment(self, *, kept: bool = False) -> int:
        """What the allocator counts now, of each device; how many moments were before it."""
        with self.lock:
            self.busy = True  # what is called here is between no two calls of the program's
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
            if stats == before:  # else another thread came between
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
                # As it was before the recording took it, so that few threads come in between.
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
        """Half of the random moments are enough; what they had as peak counts to the next one."""
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
        if dropped is not None:  # the last one stays: nothing after it has its peak
            left.append(dropped)
        self.moments[:] = left

    def end(self, path: str) -> None:
        """The last moment; then all is written, with the maps of some."""
        sys.setprofile(None)
        gc.collect()
        gc.disable()  # what it freed would be freed after the last moment
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
    """The segments with their blocks, as PyTorch lists them; without the trace where it can."""
    try:
        return torch.cuda.memory_snapshot(include_traces=False)
    except TypeError:  # before 2.10 or so
        return torch.cuda.memory_snapshot()


def held(segments: Any, device: int) -> int:
    """Requested bytes of what no one has let go of. No statistic says it."""
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
    """A training step, under a name that `memreplay steps` can be asked for."""
    first = moment(kept=True)
    with torch.profiler.record_function("truth_step"):
        yield
        last = moment(kept=True)
    _truth.found["steps"].append((first, last))


def stepped() -> None:
    """An optimizer has done its step: one of training ends here."""
    _truth.found["stepped"].append(moment(kept=True))


def peak(n_bytes: int) -> None:
    """What torch says of a step that is called as those of `step` are."""
    _truth.found["peaks"].append(n_bytes)


def begin_again() -> None:
    """The recording begins here, and knows nothing of what was before."""
    sys.setprofile(None)  # a moment between the two would be in the trace, and not counted
    torch.cuda.memory._record_memory_history(None)  # an older torch clears the trace with that
    try:
        torch.cuda.memory._record_memory_history(stacks="python", clear_history=True)
    except TypeError:
        torch.cuda.memory._record_memory_history(stacks="python")
    begin()


def oom(error: BaseException, cause: str | None) -> None:
    """A request that failed: what PyTorch says of it, and why it failed, where that is known."""
    _truth.found["ooms"].append((str(error), cause))


def ended_by(error: BaseException, cause: str | None) -> None:
    """The same, and the program has ended by it."""
    oom(error, cause)
    _truth.found["ended_by_oom"] = True


def leak(path: str, mark: str, bytes_per_step: int) -> None:
    """A leak that the program has, in its line with this comment."""
    with open(path, encoding="utf-8") as file:
        (line,) = (i for i, one in enumerate(file, 1) if one.endswith(f"# {mark}\n"))
    _truth.found["leaks"] = [*(_truth.found["leaks"] or []), (path, line, bytes_per_step)]


def no_leak() -> None:
    """Nothing leaks, whatever grows."""
    _truth.found["leaks"] = []


def categories(**sums: int) -> None:
    """Bytes of these categories, as the program's own tensors have them, now."""
    _truth.found["categories"].append((moment(kept=True), sums))


def beside(name: str, sums: dict[str, int] | None = None) -> None:
    """What PyTorch's MemTracker says of memory, now; or that it begins."""
    _truth.found["beside"].append((moment(kept=True), name, sums))


def timeline(events: list[dict[str, Any]]) -> None:
    """What PyTorch's profiler says of all that was allocated."""
    _truth.found["timeline"] += events


def nbytes(tensors: Any) -> int:
    """Bytes of the storages of these tensors, each once."""
    storages = {one.untyped_storage().data_ptr(): one for one in tensors if one is not None}
    return sum(one.untyped_storage().nbytes() for one in storages.values())
