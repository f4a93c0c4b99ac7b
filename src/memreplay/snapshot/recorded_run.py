"""Validate the recorded facts about a run, because the file is untrusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

MOST = 80  # maximum length of a string, in characters


class RecordedRun(Record, frozen=True, kw_only=True):
    """Notes by memreplay's recorder on the run, as in the file."""

    recorder: str
    """`record`, `dryrun` or `estimate`."""
    torch: str | None
    """Version of torch."""
    python: str | None
    """Version of Python."""
    host: str | None
    """Host name."""
    card_names: tuple[str, ...]
    """Names of the cards that the process saw."""
    rank: int | None
    """Rank of the process; null if the run wasn't distributed."""
    world_size: int | None
    """Number of ranks."""
    has_categories: bool
    """Whether the allocations' categories, phases and modules were recorded and match the events.
    """


def recorded_run(snap: Snapshot) -> RecordedRun | None:
    """Return the facts about the run; None if another recorder wrote the file."""
    own = snap.recorder
    by = _text(own.get("recorder"))
    if by is None:
        return None
    cards = own.get("cards")
    names = (
        [_text(one.get("name")) for one in cards if isinstance(one, dict)]
        if isinstance(cards, list)
        else []
    )
    return RecordedRun(
        recorder=by,
        torch=_text(own.get("torch")),
        python=_text(own.get("python")),
        host=_text(own.get("host")),
        card_names=tuple(name for name in names if name),
        rank=_number(own.get("rank")),
        world_size=_number(own.get("world_size")),
        has_categories=snap.recorded is not None,
    )


def _text(found: object) -> str | None:
    return found[:MOST] if isinstance(found, str) and found else None


def _number(found: object) -> int | None:
    return found if type(found) is int and 0 <= found < 2**31 else None
