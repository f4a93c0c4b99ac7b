"""Summarize each process of a dry run from PyTorch's counters and its snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay import _core
from memreplay.commands.dryrun.result import DryDevice, DryProcess
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.commands.dryrun.budgets import Judge
    from memreplay.dryrun.launch import Process
    from memreplay.snapshot.snapshot import Snapshot

_STATISTICS = {
    "reserved_peak_bytes": "reserved_bytes.all.peak",
    "allocated_peak_bytes": "allocated_bytes.all.peak",
    "requested_peak_bytes": "requested_bytes.all.peak",
    "oom_count": "num_ooms",
    "retries": "num_alloc_retries",
}


def processes_of(
    raw: Sequence[Process], files: Mapping[int, str], judge: Judge | None = None
) -> tuple[DryProcess, ...]:
    """Summarize the processes that used a card, reading each snapshot once and checking budgets.

    Raises SnapshotError for an unreadable snapshot.
    """
    return tuple(_process(one, files.get(one.pid), judge) for one in raw)


def _process(process: Process, file: str | None, judge: Judge | None) -> DryProcess:
    facts = process.facts
    counted = [
        DryDevice(
            device=i,
            recorded_peak_bytes=0,
            **{name: one.get(key, 0) for name, key in _STATISTICS.items()},
        )
        for i, one in enumerate(facts.get("statistics", []))
        if one.get("allocation.all.allocated") or one.get("num_ooms")
    ]
    devices = counted
    digest = None
    if file is not None:
        with open_snapshot(process.pickle or file) as snap:
            digest = _digest(snap)
            # Allocators of other PyTorch versions may not count everything, so use the recording as
            # a lower bound.
            devices = [_at_least(one, snap) for one in counted]
            if judge is not None:
                judge.judge(snap, devices)
    return DryProcess(
        pid=process.pid,
        rank=facts.get("rank"),
        file=file,
        last_call=None if facts else process.last_call,
        not_written=facts.get("not_written"),
        replaced=process.replaced,
        recorded_by_itself=bool(facts.get("recorded_by_itself")),
        dumped=tuple(facts.get("dumped", ())),
        devices=tuple(devices),
        sizes_digest=digest,
    )


def _digest(snap: Snapshot) -> str | None:
    """Return a digest of all allocations' sizes, in order."""
    import hashlib

    if not snap.has_events:
        return None
    found = hashlib.sha256()
    for device in snap.devices:
        replay = snap.replay(device)
        rows = (replay.vector("action", "B") == _core.ACTIONS.index("alloc")).rows()
        found.update(memoryview(replay.vector("size", "Q")[rows]))
    return found.hexdigest()[:16]


def _at_least(device: DryDevice, snap: Snapshot) -> DryDevice:
    if device.device not in snap.devices:
        return device
    replay = snap.replay(device.device)
    found = {
        f"{name}_peak_bytes": max(
            getattr(device, f"{name}_peak_bytes"), replay.measure(name).peak.bytes
        )
        for name in ("reserved", "allocated", "requested")
    }
    recorded = replay.measure("requested").peak.bytes if snap.has_events else 0
    return replace(device, recorded_peak_bytes=recorded, **found)


def most_on_a_card(
    raw: Sequence[Process], processes: Sequence[DryProcess], context_bytes: int
) -> tuple[int, bool]:
    """Return the most memory reserved on one card at a time, and whether processes shared that
    card.

    A process is assumed to use its peak memory from its first use of a card until it ends. Every
    process on a card but the first adds a CUDA context.
    """
    of_card: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
    for one, process in zip(raw, processes, strict=True):
        began, ended = one.facts.get("began") or 0.0, one.facts.get("ended") or float("inf")
        visible = [
            int(word) for word in (one.facts.get("visible") or "").split(",") if word.isdigit()
        ]
        for device in process.devices:
            i = device.device
            card = visible[i] if i < len(visible) else i
            where = one.facts.get("node", 0), card
            of_card.setdefault(where, []).append((began, ended, device.reserved_peak_bytes))
    most, shared = 0, False
    for users in of_card.values():
        for moment, _, _ in users:
            there = [peak for began, ended, peak in users if began <= moment < ended]
            taken = sum(there) + max(len(there) - 1, 0) * context_bytes
            if taken > most:
                most, shared = taken, len(there) > 1
    return most, shared
