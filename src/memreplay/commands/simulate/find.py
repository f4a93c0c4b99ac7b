"""Simulate each device's program with other settings, compare with the recording, and check
cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Cards, Selection, Settings
from memreplay.analysis.simulating import searching
from memreplay.analysis.simulating.cards import CardSize, fitted, sizes_of, with_needs
from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.verdicts import recording_verdict, simulation_verdict
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import exactness_of, knows_reserved
from memreplay.commands.simulate.changing import Changing
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
    """Options for settings, cards, and changes to the program."""

    set: Settings = ()
    total_memory: Cards = ()
    program_memory: tuple[int, ...] = ()
    """Cards, given by the bytes that the program can use, without CUDA's part."""
    search: Annotated[
        tuple[Literal["card", "settings"], ...],
        Opt(
            "Find the smallest card that fits, with these settings and with the best of about 30"
            " others; or try about 30 settings and show the best.",
            brief="Find the smallest card, or the best settings.",
        ),
    ] = ()
    changing: Changing = Changing()
    """The change to make to the program first. It applies to the allocations that the selection's
    filters choose.
    """


@takes(
    selection=Selection,
    options=SimulateOptions,
    without=("measure", "by", "top", "pool", "stream", "fold"),
)
def simulate_report(
    snap: Snapshot, selection: Selection, options: SimulateOptions
) -> SimulateReport:
    """Simulate every device that was read, with `set` replacing some of the settings in its
    recording. `scale` and `checkpoint` change the program itself first: the allocations that
    `category`, `include` and the other filters choose.

    `total_memory`: cards by total bytes, including the part that CUDA itself uses.
    `program_memory`: cards by the part that the program can use. Each card is checked, and the
    largest is simulated for comparison with the recording. `search`: "card" finds the minimum
    memory, unless the program is changed; "settings" tries about 30 more settings.

    Raises UsageError for settings that PyTorch rejects and for a change without effect, and
    NothingToTellError for cards without events.
    """
    return report_of(snap, simulations(snap, selection, options), selection, options)


def simulations(
    snap: Snapshot, selection: Selection, options: SimulateOptions
) -> dict[int, list[Simulated]]:
    """Return each device's simulations, best first."""
    devices = chosen_devices(snap, selection)
    change = options.changing.change(selection.filters)
    edits = {} if change is None else _edits(snap, devices, change, selection)
    found = {}
    for device in devices:
        replay = snap.replay(device)
        start = changed_settings(replay.settings, ",".join(options.set))
        edit = edits.get(device)
        card = _card(replay, options)
        usable = None if card is None else card.usable
        if "settings" in options.search:
            # Include the recording's settings, so that settings that aren't better aren't reported
            # as the best.
            own = (replay.settings,)
            found[device] = searching.search(replay, start, usable, edit, own)
        else:
            found[device] = [replay.simulate(start, program_memory=usable, edit=edit)]
    return found


def _sizes(replay: Replay, options: SimulateOptions) -> tuple[CardSize, ...]:
    return sizes_of(replay, options.total_memory, options.program_memory)


def _card(replay: Replay, options: SimulateOptions) -> CardSize | None:
    """Return the card to simulate, which is the largest; None for the recording's own card."""
    return max(_sizes(replay, options), key=lambda one: one.usable, default=None)


def _edits(
    snap: Snapshot, devices: Iterable[int], change: Change, selection: Selection
) -> dict[int, Edit]:
    # Imported late: rarely needed
    from memreplay.analysis.simulating.editing import Editor, changes_nothing

    editor = Editor(snap, change, selection.rules)
    found = {device: editor.edit(snap.replay(device)) for device in devices}
    if changes_nothing(found.values()):
        raise UsageError("no allocation matches, so there is nothing to change")
    return found


def report_of(
    snap: Snapshot,
    tried: dict[int, list[Simulated]],
    selection: Selection,
    options: SimulateOptions,
) -> SimulateReport:
    """Build the report from `simulations`, including cards."""
    asked = options.total_memory or options.program_memory
    if asked and not any(snap.replay(device).events for device in tried):
        raise NothingToTellError(
            "the file has no events, so whether the program fits can't be known"
        )
    telling = _Telling(snap, Grouper(snap, "stack"), selection, options)
    return SimulateReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(map(telling.of, tried.values())),
    )


class _Telling(NamedTuple):
    """Describes devices' simulations, one device after another."""

    snap: Snapshot
    grouper: Grouper
    selection: Selection
    options: SimulateOptions

    def of(self, tried: list[Simulated]) -> DeviceSimulation:
        """Return the best of these simulations, compared with the recording."""
        snap, best, changed = self.snap, tried[0], None
        if best.edit is not None:
            # Imported late: rarely needed
            from memreplay.analysis.simulating.editing import changed_by

            changed = changed_by(best.edit)
        replay = snap.replay(best.replay.device)
        strict = self.selection.strict
        recorded = recording_verdict(snap, replay, strict=strict)
        trust = simulation_verdict(snap, replay, best, strict=strict) if replay.events else recorded
        inferred = replay.recorded.total_inferred
        sizes = _sizes(replay, self.options)
        found = DeviceSimulation(
            **inlined(DeviceSimulation, device_facts(snap, replay, trust)),
            settings=spelled(best.settings),
            recorded_settings=spelled(replay.settings) or ("" if snap.settings else None),
            # An inferred amount is only an upper bound, and a simulation's assumption.
            program_memory_bytes=None
            if inferred and best.same and not sizes
            else best.program_memory_bytes,
            recorded_program_memory_bytes=None
            if inferred
            else replay.recorded.program_memory_bytes,
            context_bytes=self._context(replay, best) or UNSET,
            context_measured=self._context_measured(replay),
            changed=changed,
            recorded=replay.recorded.outcome if knows_reserved(snap, replay) else None,
            simulated=best.outcome,
            failed=failed_request(replay, self.grouper, best),
            stopped_event=best.stopped_event,
            candidates=tuple(searching.as_candidate(one, exact=recorded.exact) for one in tried)
            if "settings" in self.options.search
            else UNSET,
        )
        smallest = "card" in self.options.search
        if not sizes and not smallest:
            return found
        fits = fitted(snap, best, self.grouper, sizes, strict=strict)
        if smallest and best.edit is None:
            fits = with_needs(fits, snap, best, strict=strict)
        return replace(
            found,
            need=fits.need,
            least=fits.least,
            cards=fits.cards,
            exactness=exactness_of(trust.exact, fits.exact),
            reasons=tuple(dict.fromkeys((*found.reasons, *fits.reasons))),
        )

    def _context_measured(self, replay: Replay) -> bool:
        asked = _card(replay, self.options)
        card = replay.card_bytes if asked is None else asked.total
        return card is not None and replay.context_measured(card)

    def _context(self, replay: Replay, best: Simulated) -> int:
        """Return the part of the card that CUDA itself is assumed to use; 0 if the card is
        unknown.
        """
        asked = _card(replay, self.options)
        if asked is not None:
            return asked.context
        card = replay.card_bytes
        if card is None or best.program_memory_bytes != replay.usable_bytes(card):
            return 0
        return replay.context_bytes(card)
