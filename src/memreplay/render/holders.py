"""Tables of the groups, pools or streams that held memory at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Protocol

from msgspec.structs import replace

from memreplay.analysis.code import naming
from memreplay.analysis.code.plumbing import library_of, shown_frame
from memreplay.analysis.groups.ways import WAYS, requested_title_of, title_of
from memreplay.analysis.groups.ways.base import FUNCTION, NO_CODE, STACK
from memreplay.analysis.groups.ways.blocks import part_label
from memreplay.render.document import Below, Place, Row, Style, Table
from memreplay.render.units import count, counted, percent, size
from memreplay.snapshot.model import By, Coded, Frame, Group, MeasureName, Part

_MAX_CALLERS = 3  # maximum number of callers to show for a stack without code
# Maximum number of frames per row: the allocation, the library in between, and callers.
_MAX_FRAMES = 3


class Grouped(Protocol):
    """A live set in groups: the groups that are shown, and the remainder."""

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
    """Return a table of the groups of `whole` bytes; empty if no memory was held."""
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
        titles = ("bytes", "share", "segments", requested_title_of(by))
    # In a narrow terminal, the location matters more than the number of allocations.
    return [Table(titles, ("right", "right", "right", "left"), tuple(rows), spare=(2,))]


def group_rows(groups: Sequence[Group], by: By, *, all_frames: bool) -> list[Row]:
    """Return a row per group; no two look the same."""
    return distinguish_rows(
        [group_row(group, by, all_frames=all_frames) for group in groups], groups
    )


def distinguish_rows(rows: Sequence[Row], groups: Sequence[Coded]) -> list[Row]:
    """Distinguish rows that look the same.

    Adds the first frame that differs below each row, preferably one in code, otherwise one in
    plumbing.
    """
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
    """Return each set of two or more rows that look the same, with depth 0."""
    seen: dict[object, list[int]] = {}
    for i in among:
        seen.setdefault(look(i), []).append(i)
    return [(some, 0) for some in seen.values() if len(some) > 1]


def _first_difference(stacks: list[tuple[Frame, ...]]) -> int | None:
    """Return the first frame index at which the stacks differ; None if they don't."""
    for at, frames in enumerate(zip_longest(*stacks)):
        if any(frame != frames[0] for frame in frames):
            return at
    return None


def _code(group: Coded) -> tuple[Frame, ...]:
    """Return the frames other than plumbing, innermost first."""
    return tuple(group.frames[i] for i in sorted((*group.user, *group.libraries)))


def group_row(group: Group, by: By, *, all_frames: bool, more: tuple[str, ...] = ()) -> Row:
    """Return bytes, share, count, `more`, and the location with callers below."""
    numbers = (size(group.bytes), percent(group.share), count(group.count), *more)
    return coded_row(numbers, group, by, all_frames=all_frames)


def coded_row(numbers: tuple[str, ...], one: Coded, by: By, *, all_frames: bool) -> Row:
    """Return the numbers and their call site, with callers below."""
    if "," in by:
        return _several_row(numbers, one, by.split(","), all_frames=all_frames)
    frames, user, code = one.frames, one.user, WAYS[by].code
    if code == NO_CODE:  # the row has only a label
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
    """Return the frame of the library call that user code made; None if there isn't one."""
    if not one.user or not one.libraries or one.libraries[0] > one.user[0]:
        return None
    frame = one.frames[one.libraries[0]]
    library = library_of(frame.file)
    return _prefixed(f"via {library}: " if library else "via ", frame)


def _prefixed(words: str, frame: Frame) -> Place:
    place = place_of(frame)
    return replace(place, function=words + place.function)


def _several_row(numbers: tuple[str, ...], one: Coded, ways: list[str], *, all_frames: bool) -> Row:
    """Format a group by several keys: the location from one key, surrounded by the other keys'
    names.
    """
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
    """Return the index of the most specific key that names a location; None if none does.

    This key also provides details that keys don't name, e.g. callers.
    """
    told = [
        (WAYS[way].code, -at)
        for at, (way, label) in enumerate(zip(ways, one.of, strict=False))
        if WAYS[way].code != NO_CODE and label.frames
    ]
    return -max(told)[1] if told else None


def _below_plumbing(frames: tuple[Frame, ...]) -> Below:
    """Return the callers of a stack without user code.

    Empty if a node or operator names the stack, as on autograd's threads, where callers aren't
    informative.
    """
    at = shown_frame(frames, ())
    if naming.short_function(frames[at].function):
        return ()
    return tuple((place_of(f), "dim") for f in frames[at + 1 : at + 1 + _MAX_CALLERS])


def one_line(row: Row) -> Row:
    """Return a row without lines below it."""
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
    """Return pools or streams: their share of the peak, and their own peaks."""
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
    """Return the table for reserved memory, which has no counts."""
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
    """Return the parts with a row, and the number of other nonzero parts."""
    more = found.groups_total - len(found.groups)
    return (found.parts[: len(found.groups)] if more else found.parts), more


def share(n_bytes: int, whole: int) -> float:
    """Return bytes divided by whole; 0 if the whole is 0."""
    return n_bytes / whole if whole else 0.0


def place_of(frame: Frame) -> Place:
    """Return a frame as a location, to be shortened later; without source, as for callers."""
    return replace(Place.of(naming.place_of(frame)), source="")
