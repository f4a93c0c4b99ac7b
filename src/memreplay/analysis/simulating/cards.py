"""Determine which cards a simulated program fits on, and its minimum memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.fitting import smallest, smallest_of_all
from memreplay.analysis.simulating.records import Fit, Need
from memreplay.analysis.simulating.searching import search
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.snapshot.alloc_conf import spelled
from memreplay.snapshot.cards import usable_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from msgspec import UnsetType

    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.model import Verdict
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


class CardSize(NamedTuple):
    """A card's total size as given, and the part that CUDA itself uses."""

    total: int
    context: int = 0

    @property
    def usable(self) -> int:
        """The part that the program can use."""
        return max(usable_bytes(self.total, self.context), 1)


def sizes_of(
    replay: Replay, cards: Iterable[int], program: Iterable[int] = ()
) -> tuple[CardSize, ...]:
    """Return distinct cards: for each size in `cards`, a card with that total size, and for each in
    `program`, a card that leaves the program that size.
    """

    def all_of_them() -> Iterator[CardSize]:
        yield from map(CardSize, program)
        for card in cards:
            yield CardSize(card, replay.context_bytes(card))

    return tuple(dict.fromkeys(all_of_them()))


class Fitted(NamedTuple):
    """Whether a program fits on cards, and how much memory it needs."""

    cards: tuple[Fit, ...]
    reasons: tuple[str, ...]
    exact: bool
    """Whether all these results are exact."""
    need: Need | UnsetType = UNSET
    least: Need | UnsetType = UNSET


def fitted(
    snap: Snapshot,
    found: Simulated,
    grouper: Grouper,
    sizes: tuple[CardSize, ...],
    *,
    strict: bool,
) -> Fitted:
    """Return whether the simulated program, with its settings, fits on cards of these sizes."""
    replay, settings, edit = snap.replay(found.replay.device), found.settings, found.edit
    trusts: list[Verdict] = []

    def fit(card: CardSize) -> Fit:
        mine = replay.simulate(settings, program_memory=card.usable, edit=edit)
        others = [] if mine.fits else search(replay, settings, card.usable, edit)
        trusts.append(simulation_verdict(snap, replay, mine, strict=strict))
        return Fit(
            total_memory_bytes=card.total,
            context_bytes=card.context or UNSET,
            fits=mine.fits,
            simulated=mine.outcome,
            failed=failed_request(replay, grouper, mine),
            stopped_event=mine.stopped_event,
            exactness=trusts[-1].exactness,
            others=tuple(spelled(one.settings) for one in others if one.fits),
        )

    cards = tuple(map(fit, sizes))
    return Fitted(cards, _reasons(trusts), all(one.exact for one in trusts))


def with_needs(fits: Fitted, snap: Snapshot, found: Simulated, *, strict: bool) -> Fitted:
    """Add the memory needed with these settings and with the best settings. This takes a few
    hundred simulations.
    """
    replay = snap.replay(found.replay.device)
    own = smallest(replay, found.settings)
    sizes = own, smallest_of_all(replay, own)
    trusts = [
        simulation_verdict(
            snap,
            replay,
            replay.simulate(one.settings, program_memory=max(one.program_memory_bytes, 1)),
            strict=strict,
        )
        for one in sizes
    ]
    need, least = (
        Need(
            settings=spelled(one.settings),
            program_memory_bytes=one.program_memory_bytes,
            exactness=trust.exactness,
        )
        for one, trust in zip(sizes, trusts, strict=True)
    )
    return Fitted(
        fits.cards,
        tuple(dict.fromkeys((*_reasons(trusts), *fits.reasons))),
        fits.exact and all(one.exact for one in trusts),
        need,
        least,
    )


def _reasons(trusts: Iterable[Verdict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for one in trusts for name in one.reasons))
