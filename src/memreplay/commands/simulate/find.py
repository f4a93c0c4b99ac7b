"""The program of each device on an allocator of other settings, beside what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import map_verdict
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.analysis.simulating import searching
from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.commands.simulate.result import DeviceSimulation, SimulateReport
from memreplay.errors import UsageError
from memreplay.snapshot.alloc_conf import changed_settings, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Unpack

    from memreplay.analysis.simulating.editing import Change
    from memreplay.snapshot.recorded_allocator import Edit
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


def simulate_report(
    snap: Snapshot,
    selection: Selection | None = None,
    *,
    settings: str = "",
    total_bytes: int | None = None,
    card_bytes: int | None = None,
    change: Change | None = None,
    search: bool = False,
    **choices: Unpack[Choices],
) -> SimulateReport:
    """Every device that was read, with `settings` changed in those of its recording, on a card that
    has `total_bytes` for it, or has `card_bytes` in all, less what CUDA takes of that, after a
    `change` of the program itself. `search` tries some 30 more.

    Raises UsageError for settings that PyTorch would not take, and for a change of nothing.
    """
    selection = selected(selection, choices)
    tried = simulations(
        snap,
        selection,
        settings=settings,
        total_bytes=total_bytes,
        card_bytes=card_bytes,
        change=change,
        search=search,
    )
    return report_of(snap, tried, card_bytes=card_bytes, search=search, strict=selection.strict)


def simulations(
    snap: Snapshot,
    selection: Selection,
    *,
    settings: str = "",
    total_bytes: int | None = None,
    card_bytes: int | None = None,
    change: Change | None = None,
    search: bool = False,
) -> dict[int, list[Simulated]]:
    """What was tried for each device, the best first."""
    devices = chosen_devices(snap, selection)
    edits = {} if change is None else _edits(snap, devices, change, selection)
    found = {}
    for device in devices:
        replay = snap.replay(device)
        start = changed_settings(replay.settings, settings)
        edit = edits.get(device)
        usable = total_bytes
        if card_bytes is not None:
            usable = max(replay.usable_bytes(card_bytes), 1)
        if search:
            own = (replay.settings,)  # so that nothing worse is called the best
            found[device] = searching.search(replay, start, usable, edit, own)
        else:
            found[device] = [replay.simulate(start, total_bytes=usable, edit=edit)]
    return found


def _edits(
    snap: Snapshot, devices: Iterable[int], change: Change, selection: Selection
) -> dict[int, Edit]:
    from memreplay.analysis.simulating.editing import Editor, changes_nothing

    editor = Editor(snap, change, selection.rules)
    found = {device: editor.edit(snap.replay(device)) for device in devices}
    if changes_nothing(found.values()):
        raise UsageError("nothing to change: no allocation is chosen")
    return found


def report_of(
    snap: Snapshot,
    tried: dict[int, list[Simulated]],
    *,
    card_bytes: int | None = None,
    search: bool,
    strict: bool,
) -> SimulateReport:
    """What `simulations` found, as a report."""
    grouper = Grouper(snap, "stack")
    return SimulateReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(
            _device(snap, grouper, some, search, card_bytes=card_bytes, strict=strict)
            for some in tried.values()
        ),
    )


def _context(replay: Replay, best: Simulated, card_bytes: int | None) -> int:
    """What of the card was taken to be CUDA's; 0 if it is not known what card that is."""
    if card_bytes is not None:
        return replay.context_bytes(card_bytes)
    card = replay.card_bytes
    if card is None or best.total_bytes != replay.usable_bytes(card):
        return 0
    return replay.context_bytes(card)


def _device(
    snap: Snapshot,
    grouper: Grouper,
    tried: list[Simulated],
    search: bool,
    *,
    card_bytes: int | None,
    strict: bool,
) -> DeviceSimulation:
    best, changed = tried[0], None
    if best.edit is not None:
        from memreplay.analysis.simulating.editing import changed_by

        changed = changed_by(best.edit)
    replay = snap.replay(best.replay.device)
    trust = simulation_verdict(snap, replay, best, strict=strict)
    recorded_is_exact = map_verdict(snap, replay, strict=strict).exact
    return DeviceSimulation(
        device=replay.device,
        first_event=replay.first_event,
        events=replay.events,
        settings=spelled(best.settings),
        recorded_settings=spelled(replay.settings) or ("" if snap.settings else None),
        total_bytes=best.total_bytes,
        recorded_total_bytes=replay.recorded.total_bytes,
        context_bytes=_context(replay, best, card_bytes) or UNSET,
        changed=changed,
        recorded=replay.recorded.outcome,
        simulated=best.outcome,
        failed=failed_request(replay, grouper, best),
        stopped_event=best.stopped_event,
        exactness=trust.exactness,
        trusted=trust.trusted,
        backend=replay.backend.name,
        reasons=trust.reasons,
        candidates=tuple(searching.as_candidate(one, exact=recorded_is_exact) for one in tried)
        if search
        else UNSET,
    )
