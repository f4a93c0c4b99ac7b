"""The explorer's text: the lines around the curve, and a row's details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.code import naming
from memreplay.analysis.code.plumbing import ALLOCATOR, function_rank, library_of
from memreplay.analysis.groups.ways import title_of
from memreplay.explore.commands_for import filter_options
from memreplay.explore.source_lines import lines_around
from memreplay.render.document import Place
from memreplay.render.fit import cell_width, cut_left, cut_right, place_lines, wrap
from memreplay.render.trust import label_of
from memreplay.render.units import count, counted, percent, signed_duration, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look
    from memreplay.explore.rows.row import Rows, Shown, Tone
    from memreplay.snapshot.model import Frame

CODE_LINES = 9  # source lines shown
MOST_FRAMES = 200


class Describer:
    """Describes one snapshot in text."""

    def __init__(self, explored: Explored, *, plain: bool = False) -> None:
        self.explored, self.plain = explored, plain

    def head(self, look: Look, file: str, width: int) -> str:
        """Describe the view."""
        snap = self.explored.snap
        verdict = self.explored.verdict(look)
        words = [
            look.measure,
            label_of(verdict.exactness, verdict.reasons, snap.trace_events(look.device)),
        ]
        parts = [f"device {look.device}"]
        if len(snap.devices) > 1:
            parts[0] += f" of {len(snap.devices)}"
        if snap.truncation is not None:
            parts.append("the intact part of a file that is cut off")
        if snap.unknown_devices:
            parts.append(f"device {', '.join(map(str, snap.unknown_devices))} not known")
        parts.append(", ".join(words))
        only = filter_options(look)
        if only:
            parts.append("only " + " ".join(only))
        said = clean((" | " if self.plain else " · ").join(parts))
        name = clean(file)
        hint = "" if verdict.trusted else " (see memreplay summary)"
        if cell_width(f" {name}  {said}{hint}") > width:
            hint = ""  # the file's name matters more
        name = cut_left(name, max(width - cell_width(said) - 4, 12))
        return cut_right(f" {name}  {said}{hint}", width)

    def cursor(self, look: Look, width: int) -> str:
        """Describe the cursor's position, and the bytes held there."""
        usage, replay = self.explored.usage(look), self.explored.replay(look)
        held, peak = usage.bytes_at(look.event), self.explored.peak(look).bytes
        if not replay.events:
            return f" {size(held)} in the final state: no events were recorded"
        events = self.explored.snap.trace_events(look.device)
        at = f"event {count(look.event)} of {count(events)}"
        if look.event == replay.start:
            at = f"the start of {counted(events, 'event')}"
        time, origin = replay.time_us(look.event), replay.origin_us
        if time is not None and origin is not None:
            at += f", {signed_duration(time - origin)}"
        part = percent(held / peak) if peak else "none"
        words = [f"{size(held)} ({part} of the peak)", at]
        where = self.explored.where(look)
        if where:
            words.append(where)
        return cut_right(" " + "   ".join(words), width)

    def title(self, look: Look) -> str:
        """Return the list's title."""
        if look.view == "tree":
            if look.inverted:
                return "allocating calls, callers below"
            return "calls, outermost first"
        if look.view == "list":
            return "allocated at"
        if look.view == "segments":
            return "# in use, + partly, ~ pending, . free; address"
        if look.view == "change" and look.span is not None:
            low, high = look.span
            start = self.explored.replay(look).start
            first = "the start" if low == start else f"event {count(low)}"
            return f"from {first} to {count(high)}"
        return title_of(look.by)

    def details(self, rows: Rows, row: int, width: int) -> list[tuple[str, Tone]]:
        """Return a row's details as lines of text, with their styles.

        The user's frames come first, with the code around the innermost one if its file exists
        here. Then come the libraries' frames, and the whole stack if it has others.
        """
        shown = rows.shown(row)
        lines: list[tuple[str, Tone]] = [(one, "own") for one in _title(shown, width)]
        wide = max([len(name) for name, _ in shown.pairs], default=0)
        for name, words in shown.pairs:
            first, *more = wrap(words, max(width - wide - 2, 8))
            lines.append((cut_right(f"{name:<{wide}}  {first}", width), "plain"))
            lines += [(cut_right(" " * (wide + 2) + one, width), "plain") for one in more]
        frames, user = shown.frames, set(shown.user)

        def listed(title: str, chosen: Sequence[int]) -> list[tuple[str, Tone]]:
            found: list[tuple[str, Tone]] = [("", "plain"), (title, "title")] if chosen else []
            for at in chosen[:MOST_FRAMES]:
                tone: Tone = "plain" if at in user else "dim"
                found += [(one, tone) for one in _frame(frames[at], width)]
            left = len(chosen) - MOST_FRAMES
            return [*found, (f"… {count(left)} more frames", "dim")] if left > 0 else found

        own = "your code" if not library_of(_file(shown)) else "libraries"
        lines += listed(own, shown.user)
        code = self._code(shown, width)
        lines += [("", "plain"), *code] if code else []
        lines += listed("libraries", shown.libraries)
        if len(shown.user) < len(frames):
            inner, outer = _parted(frames)
            lines += listed("the whole stack", outer)
            lines += listed("inside the allocator", inner)
        return lines

    def _code(self, shown: Shown, width: int) -> list[tuple[str, Tone]]:
        """Return the source around the innermost user frame, if its file exists here."""
        for at in shown.user:
            frame = shown.frames[at]
            if library_of(frame.file):
                continue
            found = lines_around(frame.file, frame.line, CODE_LINES)
            here = dict(found).get(frame.line, "").strip()
            if not found or (frame.source and not here.startswith(frame.source)):
                return []  # this isn't the version of the file that ran
            wide = len(str(found[-1][0]))
            return [
                (
                    cut_right(f"{number:>{wide}} {clean(text.expandtabs(4))}", width),
                    "own" if number == frame.line else "dim",
                )
                for number, text in found
            ]
        return []


def _title(shown: Shown, width: int) -> list[str]:
    """Return the lines that name a row."""
    if not shown.places:
        return wrap(shown.title, width)
    found = []
    for place in shown.places:
        found += place_lines(replace(place, note="", source=""), width)
        found += [cut_right(clean(place.note), width)] if place.note else []
    return found


def _frame(frame: Frame, width: int) -> list[str]:
    """Return a frame's lines, named as in tables, with its source if the snapshot has it."""
    return place_lines(Place.of(naming.place_of(frame)), width)


def _file(shown: Shown) -> str:
    return shown.frames[shown.user[0]].file if shown.user else ""


def _parted(frames: Sequence[Frame]) -> tuple[range, range]:
    """Return the innermost frames, which belong to the allocator and the stack recorder and are the
    same in every stack, and the others.
    """
    ranks = (function_rank(one.function) for one in frames)
    first = next((i for i, rank in enumerate(ranks) if rank != ALLOCATOR), 0)
    return range(first), range(first, len(frames))
