"""Format each rank's growth from dump to dump as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.render.document import Align, Block, Heading, Note, Row, Table
from memreplay.render.trust import label_of
from memreplay.render.units import counted, signed_size, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.fleets.result import RankDump, RankHistory

UNREAD = 10  # maximum number of unreadable older dumps to list
LONG = 28  # a name of a dump that is longer is shortened
LEAST = 17  # minimum width of the last column, enough for `1 request failed`
_RIGHT: Align = "right"
_ALIGNS: tuple[Align, ...] = (_RIGHT, "left", *(_RIGHT,) * 6, "left")


def history_blocks(history: Sequence[RankHistory], top: int, noun: str) -> list[Block]:
    """Return a table of the ranks that grew most, with a row per dump. `noun`: what a rank is
    called.
    """
    if not history:
        return [Note(f"no {noun} has several dumps to compare")]
    names = _names(history)
    grown = sorted(zip(history, names, strict=True), key=lambda one: _grown(one[0]), reverse=True)
    shown = grown[:top] if top else grown
    same = _same_start([dump.name for one, _ in shown for dump in one.dumps])
    rows = [row for one, name in shown for row in _rows(one, name, same)]
    if left := len(grown) - len(shown):
        words = f"{counted(left, f'more {noun}')} (--top 0 shows all)"
        rows.append(Row((*[""] * 8, words), style="dim"))
    titles = (noun, "dump", "peak", "change", "reserved", "change", "at the end", "change", "")
    headline = Heading(("dumps, oldest first", _most(*grown[0], noun)))
    table = Table(titles, _ALIGNS, tuple(rows), spare=(5, 4, 3, 7), least=LEAST)
    return [headline, table, *_unread(history)]


def _unread(history: Sequence[RankHistory]) -> list[Note]:
    """Return why some older dumps weren't read.

    The rest of the report only covers the newest dumps.
    """
    told = dict.fromkeys(
        f"not read: {dump.file}: {dump.error}"
        for one in history
        for dump in one.dumps[:-1]
        if dump.status not in ("ok", "empty")
    )
    notes = [Note(words, "warning") for words in list(told)[:UNREAD]]
    if left := len(told) - len(notes):
        notes.append(Note(f"{counted(left, 'more dump')} not read", "warning"))
    return notes


def _names(history: Sequence[RankHistory]) -> list[str]:
    """Return the ranks' names, including the device for ranks that have several."""
    ranks = [one.rank for one in history]
    return [
        ("-" if one.rank is None else str(one.rank))
        + (f", device {one.device}" if ranks.count(one.rank) > 1 else "")
        for one in history
    ]


def _most(one: RankHistory, name: str, noun: str) -> str:
    """Return text such as `rank 2 holds 120.0 MiB more at the end of iteration_30 than of
    iteration_10`.
    """
    read = [dump for dump in one.dumps if dump.end_bytes is not None]
    if one.end_change_bytes:
        held, change = "at the end", one.end_change_bytes
    elif one.peak_change_bytes:
        held, change = "at the peak", one.peak_change_bytes
    else:
        return f"no {noun} holds more in its last dump than in its first"
    words = f"{size(abs(change))} {'more' if change > 0 else 'less'} {held} of {read[-1].name}"
    return f"{noun} {name} holds {words} than of {read[0].name}"


def _grown(one: RankHistory) -> tuple[int, int, int]:
    """Sort by growth, then rank."""
    return (one.end_change_bytes or 0, one.peak_change_bytes or 0, -(one.rank or 0))


def _same_start(names: Sequence[str]) -> int:
    """Return how many characters at the start of dumps' names to leave out: if names are long, as
    few as possible of the words at the start that all names share.
    """
    longest = max(map(len, names), default=0)
    pairs = enumerate(zip(min(names, default=""), max(names, default=""), strict=False))
    same = next((at for at, (one, other) in pairs if one != other), 0)
    ends = [one.end() for one in re.finditer(r"[-_./]", names[0][:same])] if names else []
    enough = [end for end in ends if longest - end < LONG]
    return 0 if longest <= LONG or not ends else min(enough, default=ends[-1])


def _rows(one: RankHistory, name: str, same: int) -> list[Row]:
    """Return a row per dump with the change since the previous readable one."""
    rows = []
    before: RankDump | None = None
    for dump in one.dumps:
        short = f"…{dump.name[same:]}" if same else dump.name
        head = (name if dump is one.dumps[0] else "", short)
        if dump.peak_bytes is None:
            why = "not read" if dump.error else f"nothing of device {one.device}"
            rows.append(Row((*head, *[""] * 6, why), style="warning"))
            continue
        was = (None, None, None) if before is None else _numbers(before)
        pairs = zip(_numbers(dump), was, strict=True)
        cells = [cell for now, then in pairs for cell in _sized(now, then)]
        failed = f"{counted(dump.oom_count, 'request')} failed" if dump.oom_count else ""
        label = label_of(dump.exactness or "exact", dump.reasons)
        words = ", ".join(filter(None, (failed, "" if label == "exact" else label)))
        rows.append(Row((*head, *cells, words), style="strong" if dump.oom_count else "plain"))
        before = dump
    return rows


def _numbers(dump: RankDump) -> tuple[int | None, int | None, int | None]:
    return dump.peak_bytes, dump.reserved_peak_bytes, dump.end_bytes


def _sized(now: int | None, before: int | None) -> tuple[str, str]:
    """Format a number and its change."""
    if now is None:
        return "", ""
    if before is None:
        return size(now), ""
    return size(now), signed_size(now - before) if now != before else "-"
