"""The explorer's text: the lines around the curve, and a row's details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.code.plumbing import library_of
from memreplay.analysis.groups.ways import title_of
from memreplay.explore.commands_for import filter_options
from memreplay.explore.source_lines import lines_around
from memreplay.render.fit import cut_left, cut_right, wrap
from memreplay.render.trust import label_of
from memreplay.render.units import count, percent, signed_duration, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look
    from memreplay.explore.rows.row import Rows, Shown
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
        if not verdict.trusted:
            words[-1] += " (see memreplay summary)"
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
        said = (" | " if self.plain else " · ").join(parts)
        name = cut_left(clean(file), max(width - len(said) - 4, 12))
        return cut_right(f" {name}  {clean(said)}", width)

    def cursor(self, look: Look, width: int) -> str:
        """Describe the cursor's position, and the bytes held there."""
        usage, replay = self.explored.usage(look), self.explored.replay(look)
        held, peak = usage.bytes_at(look.event), self.explored.peak(look).bytes
        if not replay.events:
            return f" {size(held)} in the final state: no events were recorded"
        at = "the start" if look.event == replay.start else f"event {count(look.event)}"
        at += f" of {count(self.explored.snap.trace_events(look.device))}"
        time, origin = replay.time_us(look.event), replay.origin_us
        if time is not None and origin is not None:
            at += f", {signed_duration(time - origin)}"
        part = percent(held / peak) if peak else "none"
        words = [f"{size(held)} ({part} of the peak)", at]
        where = self.explored.where(look)
        if where:
            words.append(where)
        return cut_right(" " + "   ".join(words), width)

    def ends(self, look: Look) -> tuple[str, str]:
        """Describe the window's ends."""
        replay = self.explored.replay(look)
        if not replay.events:
            return "", ""
        if look.axis == "event":
            first = "start" if look.first == replay.start else count(look.first)
            return first, count(look.last)
        origin = replay.origin_us or 0
        times = [replay.clock_us(max(one, replay.first_event)) for one in (look.first, look.last)]
        return tuple(signed_duration((one or 0) - origin) for one in times)  # type: ignore[return-value]

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

    def details(self, rows: Rows, row: int, width: int, height: int) -> list[tuple[str, str]]:
        """Return a row's details as (text, style) lines, as many as fit."""
        shown = rows.shown(row)
        lines = [(one, "title") for one in wrap(shown.title, width)[:3]]
        wide = max([len(name) for name, _ in shown.pairs], default=0)
        lines += [(cut_right(f"{name:<{wide}}  {words}", width), "") for name, words in shown.pairs]
        frames, user = shown.frames[:MOST_FRAMES], set(shown.user)
        code = self._code(frames, user, width, max(min(CODE_LINES, height - len(lines) - 4), 0))
        room = height - len(lines) - len(code) - 2
        if frames and room > 0:
            lines += [("", ""), *self._frames(shown, room, width)]
        if code:
            lines += [("", ""), *code]
        return lines[:height]

    def _frames(self, shown: Shown, room: int, width: int) -> list[tuple[str, str]]:
        """Return as many frames as fit. Each has its source line if the snapshot has it."""
        frames, user = shown.frames[:MOST_FRAMES], set(shown.user)
        told: list[tuple[str, str]] = []
        places = []  # the frames' position among the lines
        for at, frame in enumerate(frames):
            places.append(len(told))
            told.append((self._frame(frame, width), "" if at in user else "dim"))
            if frame.source:
                told.append((cut_right(f"  > {clean(frame.source)}", width), "dim"))
        if len(told) <= room and len(frames) == len(shown.frames):
            return told
        told = told[: room - 1]
        left = len(shown.frames) - sum(place < len(told) for place in places)
        return [*told, (f"… {count(left)} more frames", "dim")]

    def _frame(self, frame: Frame, width: int) -> str:
        function = clean(frame.function) or "?"
        if not frame.file:
            return cut_right(function, width)
        place = clean(frame.file) + (f":{frame.line}" if frame.line else "")
        room = width - len(function) - 2
        if room < 12:
            return cut_right(function, width)
        return f"{function}  {cut_left(place, room)}"

    def _code(
        self, frames: tuple[Frame, ...], user: set[int], width: int, most: int
    ) -> list[tuple[str, str]]:
        """Return the source around the innermost user frame, if its file exists here."""
        for at, frame in enumerate(frames):
            if at not in user or library_of(frame.file):
                continue
            found = lines_around(frame.file, frame.line, most)
            here = dict(found).get(frame.line, "").strip()
            if not found or (frame.source and not here.startswith(frame.source)):
                return []  # this isn't the version of the file that ran
            wide = len(str(found[-1][0]))
            return [
                (
                    cut_right(f"{number:>{wide}} {clean(text.expandtabs(4))}", width),
                    "title" if number == frame.line else "dim",
                )
                for number, text in found
            ]
        return []
