"""Compute each rank's growth from dump to dump, for `fleet --dump each`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.fleets.result import RankDump, RankHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memreplay.analysis.comparing.dumps import Dump
    from memreplay.fleets.result import FleetDevice, FleetRank, RankSource


def all_histories(
    histories: Iterable[Sequence[Dump]],
    rows: Mapping[str, FleetRank],
    newest: Iterable[FleetRank],
    source: RankSource,
) -> tuple[RankHistory, ...]:
    """Return the history of each rank that has several dumps, by rank.

    `rows`: all files' rows by path. `newest`: the rows of the newest dumps, with rank numbers that
    come from `source`.
    """
    numbers = {row.file: row.rank for row in newest} if source != "devices" else {}
    found = [one for history in histories for one in _histories_of(history, rows, numbers)]
    found.sort(key=lambda one: (one.rank is None, one.rank or 0, one.device))
    return tuple(found)


def _histories_of(
    history: Sequence[Dump], rows: Mapping[str, FleetRank], numbers: Mapping[str, int | None]
) -> Iterator[RankHistory]:
    """Yield the history of each device in a process with several dumps. Without a rank number, the
    device number is used.
    """
    if len(history) < 2:
        return
    read = [rows[dump.file.path] for dump in history]
    devices = sorted({device.device for row in read for device in row.devices}) or [0]
    if all(len(row.devices) < 2 for row in read):
        # If each dump has one device, it belongs to the rank, even if it's a different GPU after a
        # restart.
        devices = [next((row.devices[0].device for row in reversed(read) if row.devices), 0)]
    for device in devices:
        dumps = tuple(
            _dump(dump, row, next((one for one in row.devices if one.device == device), None))
            if len(devices) > 1
            else _dump(dump, row, next(iter(row.devices), None))
            for dump, row in zip(history, read, strict=True)
        )
        yield RankHistory(
            rank=numbers.get(read[-1].file, device),
            device=device,
            peak_change_bytes=_change([one.peak_bytes for one in dumps]),
            reserved_change_bytes=_change([one.reserved_peak_bytes for one in dumps]),
            end_change_bytes=_change([one.end_bytes for one in dumps]),
            dumps=dumps,
        )


def _dump(dump: Dump, row: FleetRank, own: FleetDevice | None) -> RankDump:
    return RankDump(
        name=dump.name,
        file=row.file,
        status=row.status,
        error=row.error,
        peak_bytes=None if own is None else own.peak_bytes,
        reserved_peak_bytes=None if own is None else own.reserved_peak_bytes,
        end_bytes=None if own is None else own.end_bytes,
        oom_count=None if own is None else own.oom_count,
        exactness=None if own is None else own.exactness,
        reasons=() if own is None else own.reasons,
    )


def _change(values: Sequence[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    return known[-1] - known[0] if len(known) > 1 else None
