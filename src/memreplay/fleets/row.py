"""What is told of one rank's snapshot: the one function that every kind of worker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.kinds import categories_at, categories_source
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.analysis.steps.boundaries import at_most, known_steps, step_at
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.leaks.find import device_leaks
from memreplay.commands.steps.find import sum_steps
from memreplay.commands.summary.run import recorded_run
from memreplay.fleets.result import CardFit, FleetDevice, FleetRank, Holder
from memreplay.snapshot.record import inlined
from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from memreplay.analysis.steps.records import Found
    from memreplay.fleets.result import CurveKind
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

HOLDERS = 32  # what ranks are told apart by
PARTS = 64  # of a curve without steps
MOST_STEPS = 512  # of one with steps


def rank_row(snap: Snapshot, selection: Selection, totals: tuple[int, ...] = ()) -> FleetRank:
    """One rank, whose number nobody knows yet; whether it fits on cards with so many bytes."""
    grouper = Grouper(snap, "line", selection.rules)
    noted = recorded_run(snap)
    devices = [
        _device(snap, usage, grouper, totals, strict=selection.strict)
        for usage in chosen_usages(snap, selection)
    ]
    return FleetRank(
        rank=None,
        file=snap.file,
        status="ok" if devices else "empty",
        error="" if devices else "neither events nor segments",
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        host=None if noted is None else noted.host,
        devices=tuple(sorted(devices, key=lambda one: (-one.peak_bytes, one.device))),
        noted_rank=None if noted is None else noted.rank,
    )


def _device(
    snap: Snapshot, usage: Usage, grouper: Grouper, totals: tuple[int, ...], *, strict: bool
) -> FleetDevice:
    replay, point = usage.replay, usage.peak
    reserved = replay.measure("reserved")
    steps = known_steps(snap, replay)
    trust = verdict(snap, usage, strict=strict)
    groups, *_ = grouper.holders(usage, point.event_index, HOLDERS)
    total = replay.card_bytes
    by, curve = _curve(usage, steps)
    return FleetDevice(
        **inlined(FleetDevice, device_facts(snap, replay, trust)),
        peak_bytes=point.bytes,
        event_index=point.event_index,
        time_us=point.time_us,
        step=step_at(steps, replay, point.event_index),
        reserved_peak_bytes=reserved.peak.bytes,
        unused_bytes=unused_bytes(replay),
        total_bytes=total,
        headroom_bytes=None if total is None else replay.usable_bytes(total) - reserved.peak.bytes,
        end_bytes=usage.end_bytes,
        ooms=len(replay.events_of("oom")),
        leak_bytes_per_step=_leaking(snap, usage, steps),
        categories_source=categories_source(snap),
        categories=()
        if usage.measure == "reserved"
        else categories_at(grouper, usage, point.event_index),
        holders=tuple(Holder(_place(one), one.bytes, one.count) for one in groups),
        curve_by=by,
        curve=curve,
        cards=tuple(_on_card(snap, replay, total, strict=strict) for total in totals),
    )


def _on_card(snap: Snapshot, replay: Replay, total: int, *, strict: bool) -> CardFit:
    found = replay.simulate(total_bytes=max(replay.usable_bytes(total), 1))
    trust = simulation_verdict(snap, replay, found, strict=strict)
    return CardFit(total, found.fits, trust.exactness)


def _curve(usage: Usage, steps: Found) -> tuple[CurveKind, tuple[int, ...]]:
    """The highest bytes of each step, or of equal parts of the events."""
    replay = usage.replay
    if len(steps.pieces) > 1:
        found = sum_steps(usage, at_most(steps, MOST_STEPS).pieces)
        return "steps", tuple(step.peak_bytes for step in found.steps)
    bounds = [replay.first_event + replay.events * k // PARTS for k in range(PARTS + 1)]
    _, high, _ = usage.ranges(bounds)
    return "events", tuple(high)


def _leaking(snap: Snapshot, usage: Usage, steps: Found) -> int | None:
    """What leaks a step, where steps are marked: to guess them takes longer than all else."""
    if steps.source is None or usage.measure == "reserved":
        return None
    found = device_leaks(snap, usage, Selection(top=1))
    return (found.leak_bytes_per_step or found.whole_bytes_per_step) if found.judged else None


def _place(group: Group) -> str:
    """`forward model.py:28`; what has no frames has its label."""
    if not group.frames:
        return group.label
    frame = group.frames[0]
    return f"{frame.function} {frame.file}:{frame.line}"
