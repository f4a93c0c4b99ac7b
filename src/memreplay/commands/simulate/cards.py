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
    from memreplay.analysis.simulating.fitting import Smallest
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
    """What a program needs, and whether it fits."""

    need: Need | UnsetType
    least: Need | UnsetType
    cards: tuple[Fit, ...]
    reasons: tuple[str, ...]
    exact: bool
    """Whether all of this is."""


def fitted(
    snap: Snapshot,
    found: Simulated,
    grouper: Grouper,
    sizes: tuple[CardSize, ...],
    *,
    strict: bool,
) -> Fitted:
    """Whether the program that was simulated fits on cards of these sizes, with its settings.

    What it needs is not told of a program that was changed.
    """
    replay, settings, edit = snap.replay(found.replay.device), found.settings, found.edit
    reasons: dict[str, None] = {}
    exact = True

    def judged(one: Simulated) -> Verdict:
        nonlocal exact
        trust = simulation_verdict(snap, replay, one, strict=strict)
        exact = exact and trust.exact
        reasons.update(dict.fromkeys(trust.reasons))
        return trust

    def needed(one: Smallest) -> Need:
        trust = judged(replay.simulate(one.settings, total_bytes=max(one.total_bytes, 1)))
        return Need(
            settings=spelled(one.settings),
            total_bytes=one.total_bytes,
            exactness=trust.exactness,
        )

    def fit(card: CardSize) -> Fit:
        mine = replay.simulate(settings, total_bytes=card.usable, edit=edit)
        others = [] if mine.fits else search(replay, settings, card.usable, edit)
        return Fit(
            total_bytes=card.total,
            context_bytes=card.context or UNSET,
            fits=mine.fits,
            simulated=mine.outcome,
            failed=failed_request(replay, grouper, mine),
            stopped_event=mine.stopped_event,
            exactness=judged(mine).exactness,
            others=tuple(spelled(one.settings) for one in others if one.fits),
        )

    need: Need | UnsetType = UNSET
    least: Need | UnsetType = UNSET
    if edit is None:
        own = smallest(replay, settings)
        need, least = needed(own), needed(smallest_of_all(replay, own))
    cards = tuple(map(fit, sizes))
    return Fitted(need, least, cards, tuple(reasons), exact)
