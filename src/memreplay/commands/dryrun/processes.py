"""Summarize each process of a dry run from PyTorch's counters and its snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay import _core
from memreplay.commands.dryrun.result import DryDevice, DryOutside, DryProcess
from memreplay.snapshot.cards import Outside
from memreplay.snapshot.snapshot import open as open_snapshot

if TYPE_CHECKING:
    from memreplay.commands.dryrun.budgets import Judge
    from memreplay.commands.dryrun.estimates import Estimates
    from memreplay.dryrun.launch import Process
    from memreplay.snapshot.cards import Card
    from memreplay.snapshot.snapshot import Snapshot

_STATISTICS = {
    "reserved_peak_bytes": "reserved_bytes.all.peak",
    "allocated_peak_bytes": "allocated_bytes.all.peak",
    "requested_peak_bytes": "requested_bytes.all.peak",
    "oom_count": "num_ooms",
    "retries": "num_alloc_retries",
}


def processes_of(
    raw: Sequence[Process],
    files: Mapping[int, str],
    card: Card,
    estimates: Estimates,
    judge: Judge | None = None,
) -> tuple[DryProcess, ...]:
    """Summarize the processes that used a card, reading each snapshot once, looking for estimates
    and checking budgets.

    Raises SnapshotError for an unreadable snapshot.
    """
    return tuple(_process(one, files.get(one.pid), card, estimates, judge) for one in raw)


def _process(
    process: Process, file: str | None, card: Card, estimates: Estimates, judge: Judge | None
) -> DryProcess:
    facts = process.facts
    outside = facts.get("outside") or []
    counted = [
        DryDevice(
            device=i,
            outside=outside_of(card, outside[i] if i < len(outside) else ()),
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
            estimates.look(process, snap)
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


def outside_of(card: Card, counts: Sequence[int]) -> DryOutside:
    """Return what a process takes outside the allocator. `counts`: how often it took each part."""
    times = Outside(*counts) if counts else Outside(*[0] * len(Outside._fields))
    each = card.outside
    return DryOutside(
        cuda_bytes=card.context_bytes + times.kernels * each.kernels,
        cublas_bytes=times.cublas * each.cublas + times.cublas_more * each.cublas_more,
        cudnn_bytes=times.cudnn * each.cudnn,
        cusolver_bytes=times.cusolver * each.cusolver,
        cufft_bytes=times.cufft * each.cufft,
        nccl_bytes=times.nccl * each.nccl,
    )


def total(outside: DryOutside) -> int:
    """Add up the memory outside the allocator."""
    return (
        outside.cuda_bytes
        + outside.cublas_bytes
        + outside.cudnn_bytes
        + outside.cusolver_bytes
        + outside.cufft_bytes
        + outside.nccl_bytes
    )


class Most(NamedTuple):
    """The most memory that is used on one card at a time."""

    reserved: int
    outside: int
    shared: bool
    """Whether several processes used the card at that time."""


def most_on_a_card(
    raw: Sequence[Process], processes: Sequence[DryProcess], context_bytes: int
) -> Most:
    """Return the most memory used on one card at a time.

    A process is assumed to use its peak memory from its first use of a card until it ends.
    """
    of_card: dict[tuple[int, int], list[tuple[float, float, DryDevice]]] = {}
    for one, process in zip(raw, processes, strict=True):
        began, ended = one.facts.get("began") or 0.0, one.facts.get("ended") or float("inf")
        visible = [
            int(word) for word in (one.facts.get("visible") or "").split(",") if word.isdigit()
        ]
        for device in process.devices:
            i = device.device
            card = visible[i] if i < len(visible) else i
            where = one.facts.get("node", 0), card
            of_card.setdefault(where, []).append((began, ended, device))
    most = Most(0, context_bytes, shared=False)
    for users in of_card.values():
        for moment, _, _ in users:
            there = [device for began, ended, device in users if began <= moment < ended]
            taken = Most(
                sum(one.reserved_peak_bytes for one in there),
                sum(total(one.outside) for one in there),
                len(there) > 1,
            )
            if taken.reserved + taken.outside > most.reserved + most.outside:
                most = taken
    return most
