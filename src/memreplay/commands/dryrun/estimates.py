"""Find how much of a dry run's peak consists of workspaces whose sizes are estimates."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from memreplay.commands.dryrun.result import Estimate, EstimateName

if TYPE_CHECKING:
    from memreplay.dryrun.launch import Process
    from memreplay.snapshot.snapshot import Snapshot

# In the same order as in gpu/unknown.h. The errors, as shares of the size, are those on an H200
# (docs/dryrun.md).
KINDS: tuple[tuple[EstimateName, float], ...] = (
    ("convolutions", 0.15),
    ("convolutions, channels last", 0.5),
    ("recurrent networks", 0.01),
    ("measured", 0.0),
)
_CONVOLUTION, _NETWORK = re.compile("convolution"), re.compile("_rnn|_dropout_state")
_TENSOR = re.compile("::empty_")  # convolutions take workspaces from the allocator itself


class Estimates:
    """Counts estimates, and finds them in the processes' recordings."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.most: Counter[int] = Counter()  # of the process that has most
        self.most_bytes = 0
        self.benchmark = False

    def look(self, process: Process, snap: Snapshot) -> None:
        """Add a process, whose snapshot this is."""
        facts = process.facts.get("estimates") or {}
        kinds = {size: kind for kind, size in facts.get("sizes", ())}
        self.benchmark |= bool(process.facts.get("benchmark"))
        self.counts.update(dict(enumerate(facts.get("counts", ()))))
        if not kinds or not snap.has_events:
            return
        for device in snap.devices:
            found = _live(snap, device, kinds)
            if found.total() > self.most_bytes:
                self.most, self.most_bytes = found, found.total()

    def found(self) -> tuple[Estimate, ...]:
        """Return what was estimated, by kind."""
        return tuple(
            Estimate(
                name=name,
                count=self.counts[kind],
                peak_bytes=self.most[kind],
                error_bytes=int(self.most[kind] * share),
                benchmark=self.benchmark and name.startswith("convolutions"),
            )
            for kind, (name, share) in enumerate(KINDS)
            if self.counts[kind]
        )


def _live(snap: Snapshot, device: int, kinds: dict[int, int]) -> Counter[int]:
    """Return the bytes of workspaces at a device's peak, by kind. They are recognized by their
    sizes, and by the functions that allocated them.
    """
    replay = snap.replay(device)
    live = replay.live_at(event=replay.peak.event_index)
    found: Counter[int] = Counter()
    for size, stack in zip(live.size.tolist(), live.stack.tolist(), strict=True):
        if size in kinds and _is_cudnn(snap, stack):
            found[kinds[size]] += size
    return found


def _is_cudnn(snap: Snapshot, stack: int) -> bool:
    """Return whether cuDNN's operators allocated it. Without C++ frames, that isn't known."""
    names = [frame.function for frame in snap.stack(stack)]
    native = [name for name in names if "::" in name]
    if not native or any(map(_NETWORK.search, native)):
        return True
    return any(map(_CONVOLUTION.search, native)) and not any(map(_TENSOR.search, native))
