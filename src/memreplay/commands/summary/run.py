"""Validate the recorded facts about a run, because the file is untrusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.commands.summary.result import RecordedRun

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

MOST = 80  # maximum length of a string, in characters


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
