"""On which cards the program of each device fits, and with which settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.fitting import smallest, smallest_of_all
from memreplay.analysis.simulating.searching import search
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.commands.fits.result import DeviceFits, Fit, FitsReport, Need
from memreplay.errors import NothingToTellError
from memreplay.snapshot.alloc_conf import changed_settings, spelled
from memreplay.snapshot.cards import usable_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Unpack

    from memreplay.analysis.simulating.fitting import Smallest
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.model import Verdict
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


def fits_report(
    snap: Snapshot,
    selection: Selection | None = None,
    *,
    totals: tuple[int, ...] = (),
    cards: tuple[int, ...] = (),
    settings: str = "",
    **choices: Unpack[Choices],
) -> FitsReport:
    """Every device that was read, with `settings` changed in those of its recording, on a card that
    has each of `totals` for the program, in bytes, and on one of each of `cards` in all, of which
    CUDA itself takes some.

    Raises UsageError for settings that PyTorch would not take, and NothingToTellError where there
    are cards and no events.
    """
    selection = selected(selection, choices)
    devices = [snap.replay(device) for device in chosen_devices(snap, selection)]
    if (totals or cards) and not any(replay.events for replay in devices):
        raise NothingToTellError("no events, so nothing tells whether the program fits")
    grouper = Grouper(snap, "stack")
    return FitsReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(
            _Judging(snap, replay, grouper, strict=selection.strict).judged(
                changed_settings(replay.settings, settings),
                tuple(dict.fromkeys(_sizes(replay, totals, cards))),
            )
            for replay in devices
        ),
    )


class _Size(NamedTuple):
    """A card: what was asked for, and what of that is the program's."""

    total: int
    context: int = 0

    @property
    def usable(self) -> int:
        return max(usable_bytes(self.total, self.context), 1)


def _sizes(replay: Replay, totals: Iterable[int], cards: Iterable[int]) -> Iterator[_Size]:
    yield from map(_Size, totals)
    for card in cards:
        yield _Size(card, replay.context_bytes(card))


class _Judging:
    """One device's program."""

    def __init__(self, snap: Snapshot, replay: Replay, grouper: Grouper, *, strict: bool) -> None:
        self.snap = snap
        self.replay = replay
        self.grouper = grouper
        self.strict = strict

    def judged(self, start: AllocatorSettings, sizes: tuple[_Size, ...]) -> DeviceFits:
        """What it needs with these settings, and whether it fits on cards of these sizes."""
        replay = self.replay
        need = smallest(replay, start)
        least = smallest_of_all(replay, need)
        on_cards = [replay.simulate(start, total_bytes=one.usable) for one in sizes]
        verdicts = [self._verdict(one) for one in on_cards]
        of_need, of_least = (
            self._verdict(replay.simulate(one.settings, total_bytes=max(one.total_bytes, 1)))
            for one in (need, least)
        )
        all_of_them = (of_need, of_least, *verdicts)
        return DeviceFits(
            device=replay.device,
            first_event=replay.first_event,
            events=replay.events,
            settings=spelled(start),
            recorded_settings=spelled(replay.settings) if self.snap.settings else None,
            need=_need(need, of_need),
            least=_need(least, of_least),
            cards=tuple(map(self._fit, sizes, on_cards, verdicts)),
            exactness="exact" if all(one.exact for one in all_of_them) else "estimated",
            backend=replay.backend.name,
            trusted=of_need.trusted,
            reasons=tuple(dict.fromkeys(name for one in all_of_them for name in one.reasons)),
        )

    def _verdict(self, found: Simulated) -> Verdict:
        return simulation_verdict(self.snap, self.replay, found, strict=self.strict)

    def _fit(self, card: _Size, mine: Simulated, trust: Verdict) -> Fit:
        others = [] if mine.fits else search(self.replay, mine.settings, card.usable)
        return Fit(
            total_bytes=card.total,
            context_bytes=card.context or UNSET,
            fits=mine.fits,
            simulated=mine.outcome,
            failed=failed_request(self.replay, self.grouper, mine),
            stopped_event=mine.stopped_event,
            exactness=trust.exactness,
            others=tuple(spelled(one.settings) for one in others if one.fits),
        )


def _need(found: Smallest, trust: Verdict) -> Need:
    return Need(
        settings=spelled(found.settings),
        total_bytes=found.total_bytes,
        exactness=trust.exactness,
    )
