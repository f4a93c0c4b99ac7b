"""On which cards the program of each device fits, and with which settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.fitting import smallest, smallest_of_all
from memreplay.analysis.simulating.searching import search
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.commands.fits.result import DeviceFits, Fit, FitsReport, Need
from memreplay.snapshot.alloc_conf import changed_settings, spelled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memreplay.analysis.simulating.fitting import Smallest
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


def fits_report(
    snap: Snapshot,
    selection: Selection | None = None,
    *,
    totals: tuple[int, ...] = (),
    settings: str = "",
    **choices: Unpack[Choices],
) -> FitsReport:
    """Every device that was read, with `settings` changed in those of its recording, on a card of
    each of `totals`, in bytes.

    Raises UsageError for settings that PyTorch would not take.
    """
    selection = selected(selection, choices)
    grouper = Grouper(snap, "stack")
    devices = []
    for device in chosen_devices(snap, selection):
        replay = snap.replay(device)
        start = changed_settings(replay.settings, settings)
        devices.append(_device(snap, replay, grouper, start, totals, strict=selection.strict))
    return FitsReport(file=snap.file, truncated=snap.truncation is not None, devices=tuple(devices))


def _device(
    snap: Snapshot,
    replay: Replay,
    grouper: Grouper,
    start: AllocatorSettings,
    totals: tuple[int, ...],
    *,
    strict: bool,
) -> DeviceFits:
    need = smallest(replay, start)
    at_need = replay.simulate(start, total_bytes=max(need.total_bytes, 1))
    trust = simulation_verdict(snap, replay, at_need, strict=strict)
    return DeviceFits(
        device=replay.device,
        first_event=replay.first_event,
        events=replay.events,
        settings=spelled(start),
        recorded_settings=spelled(replay.settings),
        need=_need(need),
        least=_need(smallest_of_all(replay, start)),
        cards=tuple(_fit(replay, grouper, start, total) for total in totals),
        exactness="exact" if trust.exact else "estimated",
        trusted=trust.trusted,
        reasons=trust.reasons,
    )


def _need(found: Smallest) -> Need:
    return Need(settings=spelled(found.settings), total_bytes=found.total_bytes)


def _fit(replay: Replay, grouper: Grouper, start: AllocatorSettings, total: int) -> Fit:
    mine = replay.simulate(start, total_bytes=total)
    others = [] if mine.fits else [one for one in search(replay, start, total) if one.fits]
    return Fit(
        total_bytes=total,
        fits=mine.fits,
        simulated=mine.outcome,
        failed=failed_request(replay, grouper, mine),
        stopped_event=mine.stopped_event,
        others=tuple(spelled(one.settings) for one in others),
    )
