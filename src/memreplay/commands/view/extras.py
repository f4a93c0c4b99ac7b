"""Say on a page what `memreplay oom` says: why requests failed, and how large the card is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.commands.oom.find import CardSize, brief_ooms, card_of
from memreplay.commands.oom.text import cause_name, cause_text, remedy_rows
from memreplay.commands.report.text import asked_at
from memreplay.export.page.coding import MOST as LARGEST
from memreplay.export.page.records import PageCard, PageExtras, PageFailure
from memreplay.render.units import size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.commands.oom.result import Oom
    from memreplay.commands.report.result import Overview
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# Maximum number of failed requests to explain per device, as in the text of `memreplay oom`.
MOST = 20


def extras_of(
    snap: Snapshot, report: Overview | None, total_memory: int | None
) -> dict[int, PageExtras]:
    """Return the extras of all devices.

    The first failed request has the remedies that `report` found by simulation; others only have
    their cause. Raises UsageError if a card is larger than `total_memory`.
    """
    known = {} if report is None else {one.device: one.oom for one in report.devices}
    found = {}
    for device in snap.devices:
        replay = snap.replay(device)
        card = card_of(snap, replay, total_memory)
        ooms = brief_ooms(snap, replay, card, MOST)
        told = known.get(device)
        if told is not None and told.ooms:
            ooms = (told.ooms[0], *ooms[1:])
        found[device] = PageExtras(tuple(_failure(one, replay) for one in ooms), _card(card, ooms))
    return found


def _failure(oom: Oom, replay: Replay) -> PageFailure:
    return PageFailure(
        moment=oom.event_index - replay.first_event + 1,
        asked_by=clean(asked_at(oom)),
        cause=cause_name(oom.cause),
        text=cause_text(oom),
        cached_bytes=oom.cached_bytes,
        remedies=remedy_rows(oom) if oom.remedies else (),
    )


def _card(card: CardSize, ooms: tuple[Oom, ...]) -> PageCard | None:
    if not card.bytes or card.bytes > LARGEST:
        return None
    if not card.known:
        return PageCard(card.bytes, known=False, text=f"card of at least {size(card.bytes)}")
    words = f"card of {size(card.bytes)}"
    outside = next((one.outside_bytes for one in ooms if one.outside_known), None)
    if outside is not None:
        words += f", {size(outside)} used outside PyTorch when a request failed"
    return PageCard(card.bytes, known=True, text=words)
