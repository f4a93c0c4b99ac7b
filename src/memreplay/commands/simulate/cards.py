"""On which cards a simulated program fits, and how much memory it needs at least."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from memreplay.analysis.simulating.failing import failed_request
from memreplay.analysis.simulating.fitting import smallest, smallest_of_all
from memreplay.analysis.simulating.searching import search
from memreplay.analysis.simulating.verdicts import simulation_verdict
from memreplay.commands.simulate.result import Fit, Need
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
    """A card: what was asked for, and what of that is CUDA's."""

    total: int
    context: int = 0

    @property
    def usable(self) -> int:
        """What is the program's."""
        return max(usable_bytes(self.total, self.context), 1)


def sizes_of(
    replay: Replay, cards: Iterable[int], program: Iterable[int] = ()
) -> tuple[CardSize, ...]:
    """Cards of these sizes, each once, and those that have so much for the program."""

    def all_of_them() -> Iterator[CardSize]:
        yield from map(CardSize, program)
        for card in cards:
            yield CardSize(card, replay.context_bytes(card))

    return tuple(dict.fromkeys(all_of_them()))


class Fitted(NamedTuple):
    """Whether a program fits on cards, and what it needs."""

    cards: tuple[Fit, ...]
    reasons: tuple[str, ...]
    exact: bool
    """Whether all of this is."""
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
    """Whether the program that was simulated fits on cards of these sizes, with its settings."""
    replay, settings, edit = snap.replay(found.replay.device), found.settings, found.edit
    trusts: list[Verdict] = []

    def fit(card: CardSize) -> Fit:
        mine = replay.simulate(settings, total_bytes=card.usable, edit=edit)
        others = [] if mine.fits else search(replay, settings, card.usable, edit)
        trusts.append(simulation_verdict(snap, replay, mine, strict=strict))
        return Fit(
            total_bytes=card.total,
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
    """The same, and what the program needs with these settings, and with the best: some hundred
    simulations."""
    replay = snap.replay(found.replay.device)
    own = smallest(replay, found.settings)
    sizes = own, smallest_of_all(replay, own)
    trusts = [
        simulation_verdict(
            snap,
            replay,
            replay.simulate(one.settings, total_bytes=max(one.total_bytes, 1)),
            strict=strict,
        )
        for one in sizes
    ]
    need, least = (
        Need(settings=spelled(one.settings), total_bytes=one.total_bytes, exactness=trust.exactness)
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
