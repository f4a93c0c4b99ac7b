"""The program of each device on an allocator of other settings, beside what was recorded, and on
which cards it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import map_verdict
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Cards, Selection, Settings
from memreplay.analysis.simulating import searching
from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.analysis.trust.facts import device_facts
from memreplay.commands.simulate.cards import CardSize, fitted, sizes_of, with_needs
from memreplay.commands.simulate.result import DeviceSimulation, SimulateReport
from memreplay.declared import Opt, Options
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.alloc_conf import changed_settings, spelled
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.analysis.simulating.editing import Change
    from memreplay.snapshot.recorded_allocator import Edit
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


class SimulateOptions(Options, frozen=True):
    """Which settings, which cards, and what of the program itself is changed."""

    settings: Settings = ()
    total_memory: Cards = ()
    program_memory: tuple[int, ...] = ()
    """Cards by what the driver has for the program on them, in bytes: without what CUDA takes."""
    smallest: Annotated[
        bool,
        Opt(
            "Find the smallest card that the program fits on, with these settings and with the"
            " best of some 30 others.",
            brief="Find the smallest card that the program fits on.",
        ),
    ] = False
    search: Annotated[bool, Opt("Try some 30 settings, and show the best.")] = False
    change: Change | None = None
    """What to change of the program itself first."""


@takes(selection=Selection, options=SimulateOptions)
def simulate_report(
    snap: Snapshot, selection: Selection, options: SimulateOptions
) -> SimulateReport:
    """Every device that was read, with `settings` changed in those of its recording, after a
    `change` of the program itself.

    `total_memory` are cards by what they have in all, in bytes, of which CUDA itself takes some,
    and `program_memory` by what they have for the program. It is said of each whether the program
    fits on it, and the largest is simulated beside what was recorded. With `smallest` it is found
    how much memory the program needs at least, unless it is changed. `search` tries some 30
    settings more.

    Raises UsageError for settings that PyTorch would not take and for a change of nothing, and
    NothingToTellError where there are cards and no events.
    """
    return report_of(snap, simulations(snap, selection, options), selection, options)


def simulations(
    snap: Snapshot, selection: Selection, options: SimulateOptions
) -> dict[int, list[Simulated]]:
    """What was tried for each device, the best first."""
    devices = chosen_devices(snap, selection)
    edits = {} if options.change is None else _edits(snap, devices, options.change, selection)
    found = {}
    for device in devices:
        replay = snap.replay(device)
        start = changed_settings(replay.settings, ",".join(options.settings))
        edit = edits.get(device)
        card = _card(replay, options)
        usable = None if card is None else card.usable
        if options.search:
            own = (replay.settings,)  # so that nothing worse is called the best
            found[device] = searching.search(replay, start, usable, edit, own)
        else:
            found[device] = [replay.simulate(start, total_bytes=usable, edit=edit)]
    return found


def _sizes(replay: Replay, options: SimulateOptions) -> tuple[CardSize, ...]:
    return sizes_of(replay, options.total_memory, options.program_memory)


def _card(replay: Replay, options: SimulateOptions) -> CardSize | None:
    """The card to simulate beside what was recorded: the largest; None for the recording's own."""
    return max(_sizes(replay, options), key=lambda one: one.usable, default=None)


def _edits(
    snap: Snapshot, devices: Iterable[int], change: Change, selection: Selection
) -> dict[int, Edit]:
    from memreplay.analysis.simulating.editing import Editor, changes_nothing  # late: NumPy

    editor = Editor(snap, change, selection.rules)
    found = {device: editor.edit(snap.replay(device)) for device in devices}
    if changes_nothing(found.values()):
        raise UsageError("nothing to change: no allocation is chosen")
    return found


def report_of(
    snap: Snapshot,
    tried: dict[int, list[Simulated]],
    selection: Selection,
    options: SimulateOptions,
) -> SimulateReport:
    """What `simulations` found, as a report, and which cards the program fits on."""
    asked = options.total_memory or options.program_memory
    if asked and not any(snap.replay(device).events for device in tried):
        raise NothingToTellError("no events, so nothing tells whether the program fits")
    telling = _Telling(snap, Grouper(snap, "stack"), selection, options)
    return SimulateReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(map(telling.of, tried.values())),
    )


class _Telling(NamedTuple):
    """Tells of what was tried for one device after the other."""

    snap: Snapshot
    grouper: Grouper
    selection: Selection
    options: SimulateOptions

    def of(self, tried: list[Simulated]) -> DeviceSimulation:
        """The best of these, beside what was recorded."""
        snap, best, changed = self.snap, tried[0], None
        if best.edit is not None:
            from memreplay.analysis.simulating.editing import changed_by  # late: NumPy

            changed = changed_by(best.edit)
        replay = snap.replay(best.replay.device)
        strict = self.selection.strict
        trust = simulation_verdict(snap, replay, best, strict=strict)
        recorded_is_exact = map_verdict(snap, replay, strict=strict).exact
        found = DeviceSimulation(
            **inlined(DeviceSimulation, device_facts(snap, replay, trust)),
            settings=spelled(best.settings),
            recorded_settings=spelled(replay.settings) or ("" if snap.settings else None),
            total_bytes=best.total_bytes,
            recorded_total_bytes=replay.recorded.total_bytes,
            context_bytes=self._context(replay, best) or UNSET,
            changed=changed,
            recorded=replay.recorded.outcome,
            simulated=best.outcome,
            failed=failed_request(replay, self.grouper, best),
            stopped_event=best.stopped_event,
            candidates=tuple(searching.as_candidate(one, exact=recorded_is_exact) for one in tried)
            if self.options.search
            else UNSET,
        )
        sizes = _sizes(replay, self.options)
        if not sizes and not self.options.smallest:
            return found
        fits = fitted(snap, best, self.grouper, sizes, strict=strict)
        if self.options.smallest and best.edit is None:
            fits = with_needs(fits, snap, best, strict=strict)
        return replace(
            found,
            need=fits.need,
            least=fits.least,
            cards=fits.cards,
            exactness="exact" if trust.exact and fits.exact else "estimated",
            reasons=tuple(dict.fromkeys((*found.reasons, *fits.reasons))),
        )

    def _context(self, replay: Replay, best: Simulated) -> int:
        """What of the card was taken to be CUDA's; 0 if it is not known what card that is."""
        asked = _card(replay, self.options)
        if asked is not None:
            return asked.context
        card = replay.card_bytes
        if card is None or best.total_bytes != replay.usable_bytes(card):
            return 0
        return replay.context_bytes(card)
