"""Tables of who held the memory at a moment: groups, pools or streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Protocol

from msgspec.structs import replace

from memreplay.analysis.code import naming
from memreplay.analysis.code.plumbing import library_of, shown_frame
from memreplay.analysis.groups.ways import WAYS, asked_title_of, title_of
from memreplay.analysis.groups.ways.base import FUNCTION, NO_CODE, STACK
from memreplay.analysis.groups.ways.blocks import part_label
from memreplay.render.document import Below, Place, Row, Style, Table
from memreplay.render.units import count, counted, percent, size
from memreplay.snapshot.model import By, Coded, Frame, Group, MeasureName, Part

_MAX_CALLERS = 3  # of a stack that has no code
_MAX_FRAMES = 3  # of a row: where it was allocated, the library in between, and callers


class Grouped(Protocol):
    """A live set in groups: those that are shown, and what is left."""

    @property
    def measure(self) -> MeasureName: ...
    @property
    def groups(self) -> tuple[Group, ...]: ...
    @property
    def groups_total(self) -> int: ...
    @property
    def rest_bytes(self) -> int: ...
    @property
    def rest_count(self) -> int: ...
    @property
    def parts(self) -> tuple[Part, ...]: ...


def holder_tables(found: Grouped, whole: int, by: By, *, all_frames: bool) -> list[Table]:
    """The table of the groups, of `whole` bytes; none where nothing was held."""
    if found.parts:
        if found.measure == "reserved":
            return [_reserved_table(found, whole, by)]
        return [_parts_table(found, whole, by)]
    if not found.groups and not found.rest_count:
        return []
    rows = group_rows(found.groups, by, all_frames=all_frames)
    if found.groups_total > len(found.groups):
        rows.append(_rest_row(found, whole))
    titles = ("bytes", "share", "count", title_of(by))
    if found.measure == "reserved":
        titles = ("bytes", "share", "segments", asked_title_of(by))
    # Where there is little room a place is worth more than how many allocations it made.
    return [Table(titles, ("right", "right", "right", "left"), tuple(rows), spare=(2,))]


def group_rows(groups: Sequence[Group], by: By, *, all_frames: bool) -> list[Row]:
    """A row a group; no two of them look alike."""
    return told_apart([group_row(group, by, all_frames=all_frames) for group in groups], groups)


def told_apart(rows: Sequence[Row], groups: Sequence[Coded]) -> list[Row]:
    """The rows, one a group, and below those that would look alike the first frame in which they
    differ: of code, else of plumbing."""
    found = list(rows)
    for frames_of in (_code, lambda group: group.frames):
        alike = _alike(range(len(found)), lambda i: (found[i].cells[-1], found[i].below))
        while alike:
            among, depth = alike.pop()
            stacks = {i: frames_of(groups[i])[depth:] for i in among}
            at = _first_difference(list(stacks.values()))
            if at is None:
                continue
            for i, stack in stacks.items():
                if at < len(stack):
                    below: Below = (*found[i].below, (_prefixed("… ", stack[at]), "dim"))
                    found[i] = replace(found[i], below=below)
            rest = _alike(among, lambda i: stacks[i][at : at + 1])  # noqa: B023
            alike += [(some, depth + at + 1) for some, _ in rest]
    return found


def _alike(among: Iterable[int], look: Callable[[int], object]) -> list[tuple[list[int], int]]:
    """Those that look alike, two or more each; 0 beside them."""
    seen: dict[object, list[int]] = {}
    for i in among:
        seen.setdefault(look(i), []).append(i)
    return [(some, 0) for some in seen.values() if len(some) > 1]


def _first_difference(stacks: list[tuple[Frame, ...]]) -> int | None:
    """At which frame they are not all the same; None where nothing tells them apart."""
    for at, frames in enumerate(zip_longest(*stacks)):
        if any(frame != frames[0] for frame in frames):
            return at
    return None


def _code(group: Coded) -> tuple[Frame, ...]:
    """The frames that are of no plumbing, innermost first."""
    return tuple(group.frames[i] for i in sorted((*group.user, *group.libraries)))


def group_row(group: Group, by: By, *, all_frames: bool, more: tuple[str, ...] = ()) -> Row:
    """Its bytes, share, count and `more`, and where it was allocated, with callers below."""
    numbers = (size(group.bytes), percent(group.share), count(group.count), *more)
    return coded_row(numbers, group, by, all_frames=all_frames)


def coded_row(numbers: tuple[str, ...], one: Coded, by: By, *, all_frames: bool) -> Row:
    """Some numbers, and the code that they are of, with callers below."""
    if "," in by:
        return _several_row(numbers, one, by.split(","), all_frames=all_frames)
    frames, user, code = one.frames, one.user, WAYS[by].code
    if code == NO_CODE:  # a label is all there is to show
        return Row((*numbers, Place(one.label)))
    if not frames:
        return Row((*numbers, Place(one.label, note=one.note)), style="dim")
    if code == FUNCTION:
        return Row((*numbers, Place(one.label)))
    if code != STACK:
        name = naming.place_of(frames[0]) if user else naming.name_of_frame(frames[0])
        return Row((*numbers, Place.of(name)))
    if all_frames:
        chosen = frozenset(user)
        below: Below = tuple(
            (Place.of(naming.place_of(frame)), "plain" if index in chosen else "dim")
            for index, frame in enumerate(frames[1:], 1)
        )
        return Row((*numbers, Place.of(naming.place_of(frames[0]))), below)
    place = Place.of(naming.name_of_stack(frames, user, one.libraries))
    if not user:
        return Row((*numbers, place), _below_plumbing(frames))
    via = via_of(one)
    lines = [] if via is None else [via]
    lines += [place_of(frames[index]) for index in user[1 : _MAX_FRAMES - len(lines)]]
    callers: Below = tuple((line, "dim") for line in lines)
    return Row((*numbers, place), callers)


def via_of(one: Coded) -> Place | None:
    """The library that the user's code called, by the frame of it that allocated; None if it called
    none."""
    if not one.user or not one.libraries or one.libraries[0] > one.user[0]:
        return None
    frame = one.frames[one.libraries[0]]
    library = library_of(frame.file)
    return _prefixed(f"via {library}: " if library else "via ", frame)


def _prefixed(words: str, frame: Frame) -> Place:
    place = place_of(frame)
    return replace(place, function=words + place.function)


def _several_row(numbers: tuple[str, ...], one: Coded, ways: list[str], *, all_frames: bool) -> Row:
    """By several ways: the place that one of them names, with what the others say around it."""
    at = _place_way(one, ways)
    if at is None:
        style: Style = "plain" if any(WAYS[way].code == NO_CODE for way in ways) else "dim"
        return Row((*numbers, Place(one.label)), style=style)
    label = one.of[at]
    alone = Coded(label=label.text, frames=label.frames, user=label.user, libraries=label.libraries)
    row = coded_row(numbers, alone, ways[at], all_frames=all_frames)
    place = row.cells[-1]
    assert isinstance(place, Place)
    texts = [named.text for named in one.of]
    function = ", ".join(filter(None, (*texts[:at], place.function)))
    note = ", ".join(filter(None, (place.note, *texts[at + 1 :])))
    return replace(row, cells=(*row.cells[:-1], replace(place, function=function, note=note)))


def _place_way(one: Coded, ways: list[str]) -> int | None:
    """Which of the ways names the place, the most telling first; None where none does.

    So it is for what they do not name each, as the callers of a function that was split off.
    """
    told = [
        (WAYS[way].code, -at)
        for at, (way, label) in enumerate(zip(ways, one.of, strict=False))
        if WAYS[way].code != NO_CODE and label.frames
    ]
    return -max(told)[1] if told else None


def _below_plumbing(frames: tuple[Frame, ...]) -> Below:
    """The callers of a stack without code of the user's; none if a node or an operator names it, as
    those of autograd's threads: what called it says nothing."""
    at = shown_frame(frames, ())
    if naming.short_function(frames[at].function):
        return ()
    return tuple((place_of(f), "dim") for f in frames[at + 1 : at + 1 + _MAX_CALLERS])


def one_line(row: Row) -> Row:
    """A row without anything below it."""
    last = row.cells[-1]
    if isinstance(last, Place):
        last = replace(last, source="")
    return replace(row, cells=(*row.cells[:-1], last), below=())


def _rest_row(found: Grouped, whole: int) -> Row:
    more = counted(found.groups_total - len(found.groups), "more group")
    left = percent(share(found.rest_bytes, whole))
    numbers = (size(found.rest_bytes), left, count(found.rest_count))
    return Row((*numbers, f"{more} (--top 0 shows all)"), style="dim")


def _parts_table(found: Grouped, whole: int, by: By) -> Table:
    """Pools or streams: their share of the peak, and each one's own peaks."""
    shown, more = _shown_parts(found)
    rows = [
        Row(
            (
                size(part.bytes),
                percent(share(part.bytes, whole)),
                count(part.count) if part.count else "-",
                size(part.peak_bytes),
                size(part.reserved_bytes),
                size(part.reserved_peak_bytes),
                Place(part_label(part, by)),
            )
        )
        for part in shown
    ]
    if more:
        left = percent(share(found.rest_bytes, whole))
        numbers = (size(found.rest_bytes), left, count(found.rest_count), "", "", "")
        rows.append(Row((*numbers, f"{more} more (--top 0)"), style="dim"))
    titles = ("bytes", "share", "count", "own peak", "reserved", "its peak", by)
    return Table(titles, (*("right",) * 6, "left"), tuple(rows))


def _reserved_table(found: Grouped, whole: int, by: By) -> Table:
    """Reserved memory has no count, and needs no further columns."""
    shown, more = _shown_parts(found)
    rows = [
        Row(
            (
                size(part.bytes),
                percent(share(part.bytes, whole)),
                size(part.peak_bytes),
                Place(part_label(part, by)),
            )
        )
        for part in shown
    ]
    if more:
        left = percent(share(found.rest_bytes, whole))
        words = f"{more} more (--top 0 shows all)"
        rows.append(Row((size(found.rest_bytes), left, "", words), style="dim"))
    titles = ("bytes", "share", "own peak", by)
    return Table(titles, (*("right",) * 3, "left"), tuple(rows))


def _shown_parts(found: Grouped) -> tuple[tuple[Part, ...], int]:
    """The parts that have a row, and how many that hold anything are left."""
    more = found.groups_total - len(found.groups)
    return (found.parts[: len(found.groups)] if more else found.parts), more


def share(n_bytes: int, whole: int) -> float:
    """What part of the whole this is; 0 of nothing."""
    return n_bytes / whole if whole else 0.0


def place_of(frame: Frame) -> Place:
    """A frame as a place in code, shortened later to the width there is; without its source, as
    for callers."""
    return replace(Place.of(naming.place_of(frame)), source="")
