"""Compare two runs' ranks: each rank's change, the worst rank, the median and the spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import device_pairs, filtering_of
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.diff.ranks_result import RankDiff, RankSide
from memreplay.errors import UsageError
from memreplay.snapshot.model import When
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.analysis.selecting.filters import Filtering
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


@takes(selection=Selection)
def rank_sides(snap: Snapshot, selection: Selection, *, when: When) -> dict[int, RankSide]:
    """Return a RankSide for each of a rank's devices at the moment. This takes no longer than a
    replay.

    Devices without the moment, pool or stream are left out, because a rank may have a stray
    allocation on a device other than its own. Raises UsageError if no device is left.
    """
    filtering = filtering_of(snap, selection.filters, checked=False)
    found: dict[int, RankSide] = {}
    missing = None
    for device in snap.devices:
        replay = snap.replay(device)
        usage = replay.measure(selection.measure, pool=selection.pool, stream=selection.stream)
        try:
            found[device] = _side(snap, usage, when, filtering, selection.strict)
        except UsageError as error:
            missing = missing or str(error)
    if missing is not None and not found:
        raise UsageError(missing)
    return found


def _side(
    snap: Snapshot, usage: Usage, when: When, filtering: Filtering | None, strict: bool
) -> RankSide:
    if filtering is not None:
        usage = filtering.filtered(usage)
    event = resolve(snap, usage, when)
    at_peak = when.kind == "peak" and when.value == 1
    trust = verdict(snap, usage, strict=strict)
    return RankSide(
        file=snap.file,
        device=usage.replay.device,
        # The peak is already known, while other moments require a pass over the events.
        bytes=usage.peak.bytes if at_peak else usage.bytes_at(event),
        event_index=event,
        time_us=usage.replay.time_us(event),
        **inlined(RankSide, trust),
        backend=usage.replay.backend.name,
    )


def rank_diff(rank: int, base: Mapping[int, RankSide], new: Mapping[int, RankSide]) -> RankDiff:
    """Compare a rank on the common device with the most bytes in the new run.

    If each run has only one device, compare these two. Raises UsageError without a common device.
    """
    pairs = device_pairs(sorted(base), sorted(new))
    if not pairs:
        raise UsageError(
            f"rank {rank} has no device in common: {_listed(base)} in the base, {_listed(new)} in"
            " the new run"
        )
    ours, theirs = max(pairs, key=lambda pair: new[pair[1]].bytes)
    return rank_of_sides(rank, base[ours], new[theirs], sorted({*base, *new} - {ours, theirs}))


def rank_of_sides(rank: int, base: RankSide, new: RankSide, others: Sequence[int] = ()) -> RankDiff:
    """Compare two sides of a rank. `others` are its other devices."""
    return RankDiff(
        rank=rank,
        device=new.device,
        other_devices=tuple(others),
        base_bytes=base.bytes,
        new_bytes=new.bytes,
        change_bytes=new.bytes - base.bytes,
        base=base,
        new=new,
        trusted=base.trusted and new.trusted,
    )


def _listed(sides: Mapping[int, RankSide]) -> str:
    return "device " + ", ".join(map(str, sorted(sides))) if sides else "none"


def chosen_rank(ranks: Sequence[RankDiff], choice: int | str | None) -> RankDiff | None:
    """Return the rank whose groups to show.

    `choice`: a rank's number (the result is None if `ranks` lacks it); "worst" for the rank with
    the highest peak in the new run; None for the rank that grew most. If no rank grew, None means
    the rank that shrank most, or else the worst.
    """
    if isinstance(choice, int):
        return next((one for one in ranks if one.rank == choice), None)
    if choice == "worst" or not any(one.change_bytes for one in ranks):
        return max(ranks, key=lambda one: one.new.bytes)
    most = max(ranks, key=lambda one: one.change_bytes)
    return most if most.change_bytes > 0 else min(ranks, key=lambda one: one.change_bytes)
