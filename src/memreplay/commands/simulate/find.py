"""The program of each device on an allocator of other settings, beside what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import map_verdict
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.searching import as_candidate, search
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.commands.simulate.result import DeviceSimulation, SimulateReport
from memreplay.snapshot.alloc_conf import changed_settings, spelled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memreplay.analysis.simulating.editing import Change
    from memreplay.analysis.simulating.records import Changed
    from memreplay.snapshot.recorded_allocator import Edit
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


def simulate_report(
    snap: Snapshot,
    selection: Selection | None = None,
    *,
    settings: str = "",
    total_bytes: int | None = None,
    change: Change | None = None,
    searched: bool = False,
    **choices: Unpack[Choices],
) -> SimulateReport:
    """Every device that was read, with `settings` changed in those of its recording, on a card that
    has `total_bytes` for it, after a `change` of the program itself. `searched` tries some 30 more.

    Raises UsageError for settings that PyTorch would not take, and for a change of nothing.
    """
    selection = selected(selection, choices)
    tried = simulations(
        snap,
        selection,
        settings=settings,
        total_bytes=total_bytes,
        change=change,
        searched=searched,
    )
    return report_of(snap, tried, searched=searched, strict=selection.strict)


def simulations(
    snap: Snapshot,
    selection: Selection,
    *,
    settings: str = "",
    total_bytes: int | None = None,
    change: Change | None = None,
    searched: bool = False,
) -> dict[int, list[Simulated]]:
    """What was tried for each device, the best first."""
    editor = None
    if change is not None:
        from memreplay.analysis.simulating.editing import Editor

        editor = Editor(snap, change, selection.rules)
    found = {}
    for device in chosen_devices(snap, selection):
        replay = snap.replay(device)
        start = changed_settings(replay.settings, settings)
        edit = None if editor is None else editor.edit(replay)
        if searched:
            found[device] = search(replay, start, total_bytes, edit)
        else:
            found[device] = [replay.simulate(start, total_bytes=total_bytes, edit=edit)]
    return found


def report_of(
    snap: Snapshot, tried: dict[int, list[Simulated]], *, searched: bool, strict: bool
) -> SimulateReport:
    """What `simulations` found, as a report."""
    grouper = Grouper(snap, "stack")
    return SimulateReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        devices=tuple(
            _device(snap, grouper, some, searched, strict=strict) for some in tried.values()
        ),
    )


def _device(
    snap: Snapshot, grouper: Grouper, tried: list[Simulated], searched: bool, *, strict: bool
) -> DeviceSimulation:
    best = tried[0]
    replay = snap.replay(best.replay.device)
    trust = simulation_verdict(snap, replay, best, strict=strict)
    recorded_is_exact = map_verdict(snap, replay, strict=strict).exact
    return DeviceSimulation(
        device=replay.device,
        first_event=replay.first_event,
        events=replay.events,
        settings=spelled(best.settings),
        recorded_settings=spelled(replay.settings),
        total_bytes=best.total_bytes,
        recorded_total_bytes=replay.recorded.total_bytes,
        changed=None if best.edit is None else _changed(best.edit),
        recorded=replay.recorded.outcome,
        simulated=best.outcome,
        failed=failed_request(replay, grouper, best),
        stopped_event=best.stopped_event,
        exactness="exact" if trust.exact else "estimated",
        trusted=trust.trusted,
        reasons=trust.reasons,
        candidates=tuple(as_candidate(one, exact=recorded_is_exact) for one in tried)
        if searched
        else UNSET,
    )


def _changed(edit: Edit) -> Changed:
    from memreplay.analysis.simulating.editing import changed_by

    return changed_by(edit)
