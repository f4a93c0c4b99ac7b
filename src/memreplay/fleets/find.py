"""Compute a fleet's report: the spread, groups, outliers and curves."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.comparing.rank_names import missing_ranks
from memreplay.analysis.comparing.spread import spread_of
from memreplay.analysis.trust.trust import least_exact
from memreplay.fleets.outliers import Explained, Member, alike, holder_changes, outliers, pair_of
from memreplay.fleets.result import (
    FleetCard,
    FleetChange,
    FleetReport,
    Moment,
    RankChange,
    RankGroup,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.analysis.comparing.similarity import SimilarRanks
    from memreplay.analysis.comparing.spread import Spread
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.fleets.outliers import Pair
    from memreplay.fleets.result import (
        CurveKind,
        FleetCard,
        FleetDevice,
        FleetRank,
        RankSource,
    )


class FleetQuery(NamedTuple):
    """What the user asked for. `without`: ranks that have files but lack the wanted dump."""

    source: str
    selection: Selection
    rank_source: RankSource
    without: tuple[int, ...] = ()


def fleet_report(
    ranks: Sequence[FleetRank],
    asked: FleetQuery,
    explain: Callable[[Sequence[Pair]], Sequence[Explained]],
) -> FleetReport:
    """Build the report from all files' rows. `explain` is called to compare pairs of files."""
    rows = sorted(ranks, key=lambda one: (one.rank is None, one.rank or 0, one.file))
    told = [one for one in rows if one.status == "ok" and one.rank is not None]
    numbers = [one.rank for one in told if one.rank is not None]
    own = [one.devices[0] for one in told]
    peaks = [one.peak_bytes for one in own]
    members = [_member(one) for one in told]
    found = alike(members)
    groups = found.groups
    curve_by, curve = _over_time(numbers, own)
    top = asked.selection.top
    highest = sorted(zip(peaks, numbers, strict=True), key=lambda one: (-one[0], one[1]))
    return FleetReport(
        input=asked.source,
        measure=asked.selection.measure,
        rank_source=asked.rank_source,
        file_count=len({one.file for one in rows}),
        read_count=len({one.file for one in rows if one.status == "ok"}),
        missing_ranks=()
        if asked.rank_source == "devices"
        else missing_ranks({one.rank for one in rows if one.rank is not None}, asked.without),
        ranks=tuple(rows),
        peak=_spread(numbers, peaks),
        reserved=_known(numbers, [one.reserved_peak_bytes for one in own]),
        headroom=_known(numbers, [one.headroom_bytes for one in own]),
        worst=tuple(rank for _, rank in (highest[:top] if top else highest)),
        out_of_memory=_out_of_memory(numbers, own),
        groups=tuple(_group(one, groups[0], numbers, own) for one in groups),
        outliers=outliers(members, found, explain),
        curve_by=curve_by,
        curve=curve,
        imbalance=_imbalance(curve),
        cards=_cards(numbers, own),
        exactness=least_exact(own),
        trusted=all(one.trusted for one in own)
        and all(one.status in ("ok", "empty") for one in rows),
    )


def fleet_change(
    base: Sequence[FleetRank],
    new: Sequence[FleetRank],
    source: str,
    explain: Callable[[Sequence[Pair]], Sequence[Explained]],
) -> FleetChange:
    """Return each rank's change. `explain` is called with one pair."""
    before, after = _by_rank(base), _by_rank(new)
    both = [
        RankChange(rank, old, now, now - old)
        for rank, old, now in (
            (rank, before[rank].devices[0].peak_bytes, after[rank].devices[0].peak_bytes)
            for rank in after
            if rank in before
        )
    ]
    both.sort(key=lambda one: (-abs(one.change_bytes), one.rank))
    grown = max(both, key=lambda one: one.change_bytes, default=None)
    told = grown if grown is not None and grown.change_bytes > 0 else next(iter(both), None)
    why = Explained()
    if told is not None and told.change_bytes:
        (why,) = explain([pair_of(_member(before[told.rank]), _member(after[told.rank]))])
    old = [one.devices[0].peak_bytes for one in before.values()]
    return FleetChange(
        input=source,
        peak=_spread(list(before), old),
        change=_spread([one.rank for one in both], [one.change_bytes for one in both]),
        ranks=tuple(both),
        only_base=tuple(rank for rank in before if rank not in after),
        only_new=tuple(rank for rank in after if rank not in before),
        told_rank=told.rank if told is not None and told.change_bytes else None,
        rows=why.rows,
        error=why.error,
    )


def _by_rank(rows: Sequence[FleetRank]) -> dict[int, FleetRank]:
    told = [one for one in rows if one.status == "ok" and one.rank is not None]
    return {one.rank or 0: one for one in sorted(told, key=lambda one: one.rank or 0)}


def _spread(numbers: Sequence[int], n_bytes: Sequence[int]) -> Spread | None:
    return spread_of(numbers, n_bytes) if numbers else None


def _known(numbers: Sequence[int], n_bytes: Sequence[int | None]) -> Spread | None:
    """Return the spread of the known values."""
    known = [(rank, n) for rank, n in zip(numbers, n_bytes, strict=True) if n is not None]
    return _spread([rank for rank, _ in known], [n_bytes for _, n_bytes in known])


def _out_of_memory(numbers: Sequence[int], own: Sequence[FleetDevice]) -> tuple[int, ...]:
    failed = [(rank, one) for rank, one in zip(numbers, own, strict=True) if one.oom_count]
    return tuple(rank for rank, _ in failed)


def _group(
    group: SimilarRanks, largest: SimilarRanks, numbers: Sequence[int], own: Sequence[FleetDevice]
) -> RankGroup:
    peaks = [own[at].peak_bytes for at in group.members]
    return RankGroup(
        rank_numbers=tuple(numbers[at] for at in group.members),
        typical_rank=numbers[group.typical],
        min_bytes=min(peaks),
        max_bytes=max(peaks),
        differs=()
        if group is largest
        else holder_changes(_holders(own[largest.typical]), _holders(own[group.typical])),
    )


def _member(row: FleetRank) -> Member:
    """Return a rank that was read, to compare it with others."""
    own = row.devices[0]
    return Member(row.rank or 0, row.file, own.device, own.peak_bytes, _holders(own))


def _holders(own: FleetDevice) -> dict[str, int]:
    return {one.label: one.bytes for one in own.holders}


def _over_time(
    numbers: Sequence[int], own: Sequence[FleetDevice]
) -> tuple[CurveKind | None, tuple[Moment, ...]]:
    """Align the ranks by steps, up to the last common one, if most ranks have steps. Otherwise
    align equal parts of their events.
    """
    if not own:
        return None, ()
    by: CurveKind = "steps" if 2 * sum(o.curve_by == "steps" for o in own) > len(own) else "events"
    some = [
        (rank, one.curve_bytes)
        for rank, one in zip(numbers, own, strict=True)
        if one.curve_by == by
    ]
    found = []
    for number, values in enumerate(zip(*(curve for _, curve in some), strict=False), 1):
        most = max(values)
        found.append(
            Moment(
                number=number,
                min_bytes=min(values),
                median_bytes=int(median(values)),
                max_bytes=most,
                max_rank=some[values.index(most)][0],
            )
        )
    return by, tuple(found)


def _imbalance(curve: Sequence[Moment]) -> float | None:
    some = [one.max_bytes / one.median_bytes for one in curve if one.median_bytes > 0]
    return round(sum(some) / len(some), 4) if some else None


def _cards(numbers: Sequence[int], own: Sequence[FleetDevice]) -> tuple[FleetCard, ...]:
    """Return the result over all ranks for each card."""
    found = []
    for some in zip(*(one.cards for one in own), strict=True):
        failing = [rank for rank, one in zip(numbers, some, strict=True) if not one.fits]
        found.append(
            FleetCard(
                total_memory_bytes=some[0].total_memory_bytes,
                fitting=len(some) - len(failing),
                not_fitting=tuple(failing),
                exactness=least_exact(some),
            )
        )
    return tuple(found)


def numbered(rows: Sequence[FleetRank], ranks: Sequence[int | None]) -> list[FleetRank]:
    """Return the rows with these rank numbers."""
    return [replace(row, rank=rank) for row, rank in zip(rows, ranks, strict=True)]


def by_device(row: FleetRank) -> list[FleetRank]:
    """Split the row of a file with several devices, as if each device were a rank."""
    devices = sorted(row.devices, key=lambda one: one.device)
    return [replace(row, rank=one.device, devices=(one,)) for one in devices]
