"""Summarize one rank's snapshot. All kinds of workers run this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.kinds import categories_at, categories_source
from memreplay.analysis.leaks.judging import device_leaks
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.analysis.steps.boundaries import at_most, known_steps, step_at
from memreplay.analysis.steps.summing import sum_steps
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.fleets.outliers import Member
from memreplay.fleets.result import CardFit, FleetDevice, FleetRank, Holder
from memreplay.snapshot.record import inlined
from memreplay.snapshot.recorded_allocator import unused_bytes
from memreplay.snapshot.recorded_run import recorded_run

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.steps.records import Found
    from memreplay.fleets.result import CurveKind
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

HOLDERS = 32  # maximum number of call sites to keep for comparing ranks
PARTS = 64  # number of points in a curve if there are no steps
MOST_STEPS = 512  # maximum number of points in a curve if there are steps


def rank_row(snap: Snapshot, selection: Selection, totals: tuple[int, ...] = ()) -> FleetRank:
    """Summarize a rank whose number isn't known yet. `totals`: card sizes to check, in bytes."""
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
        error=None if devices else "neither events nor segments",
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
    reserved = replay.measure("reserved").peak.bytes if replay.shows_reserved else None
    steps = known_steps(snap, replay)
    trust = verdict(snap, usage, strict=strict)
    total = replay.card_bytes
    by, curve = _curve(usage, steps)
    return FleetDevice(
        **inlined(FleetDevice, device_facts(snap, replay, trust)),
        peak_bytes=point.bytes,
        peak_event=point.event_index,
        peak_us=point.time_us,
        step=step_at(steps, replay, point.event_index),
        reserved_peak_bytes=reserved,
        unused_bytes=None if reserved is None else unused_bytes(replay),
        total_memory_bytes=total,
        headroom_bytes=None
        if total is None or reserved is None
        else replay.usable_bytes(total) - reserved,
        end_bytes=usage.end_bytes,
        oom_count=len(replay.events_of("oom")),
        leak_bytes_per_step=_leaking(snap, usage, steps),
        categories_source=categories_source(snap),
        categories=()
        if usage.measure == "reserved"
        else categories_at(grouper, usage, point.event_index),
        holders=holders_at(grouper, usage, point.event_index),
        curve_by=by,
        curve_bytes=curve,
        cards=tuple(_on_card(snap, replay, total, strict=strict) for total in totals),
    )


def member_of(rank: int, snap: Snapshot, rules: tuple[Rule, ...] | None) -> Member | None:
    """Return a rank to compare with others, without the rest of its row; None without a device."""
    usages = chosen_usages(snap, Selection(rules=rules))
    if not usages:
        return None
    own = min(usages, key=lambda one: (-one.peak.bytes, one.replay.device))
    held = holders_at(Grouper(snap, "line", rules), own, own.peak.event_index)
    holders = {one.label: one.bytes for one in held}
    return Member(rank, snap.file, own.replay.device, own.peak.bytes, holders)


def holders_at(grouper: Grouper, usage: Usage, event: int) -> tuple[Holder, ...]:
    """Return the largest call sites, by which ranks are compared. `grouper` groups by line."""
    groups, *_ = grouper.holders(usage, event, HOLDERS)
    return tuple(Holder(_place(one), one.bytes, one.count) for one in groups)


def _on_card(snap: Snapshot, replay: Replay, total: int, *, strict: bool) -> CardFit:
    found = replay.simulate(program_memory=max(replay.usable_bytes(total), 1))
    trust = simulation_verdict(snap, replay, found, strict=strict)
    return CardFit(total, found.fits, trust.exactness)


def _curve(usage: Usage, steps: Found) -> tuple[CurveKind, tuple[int, ...]]:
    """Return the maximum bytes in each step, or in equal parts of the events."""
    replay = usage.replay
    if len(steps.pieces) > 1:
        found = sum_steps(usage, at_most(steps, MOST_STEPS).pieces)
        return "steps", tuple(step.peak_bytes for step in found.steps)
    bounds = [replay.first_event + replay.events * k // PARTS for k in range(PARTS + 1)]
    _, high, _ = usage.ranges(bounds)
    return "events", tuple(high)


def _leaking(snap: Snapshot, usage: Usage, steps: Found) -> int | None:
    """Return the leaked bytes per step, if steps are marked. Guessing steps would take too long."""
    if steps.source is None or usage.measure == "reserved":
        return None
    found = device_leaks(snap, usage, Selection(top=1))
    if not found.judged or found.unless is not None:
        return None
    rate = found.leak_bytes_per_step or found.whole_bytes_per_step
    return None if found.by_windows and not rate else rate


def _place(group: Group) -> str:
    """Return text such as `forward model.py:28`, or the label of a group without frames."""
    if not group.frames:
        return group.label
    frame = group.frames[0]
    return f"{frame.function} {frame.file}:{frame.line}"
