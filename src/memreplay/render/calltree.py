"""Format a call tree as a table."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.code.naming import short_function
from memreplay.analysis.groups.tree import Call, CallTree
from memreplay.render.document import Place, Row, Table
from memreplay.render.holders import place_of, share
from memreplay.render.units import count, counted, percent, size
from memreplay.snapshot.model import Frame

# maximum number of function names besides the located one; others are counted
_NAMES = 2
_NAMELESS = "(no function)"
_DEEPEST = 20  # maximum indentation level


def tree_table(tree: CallTree, whole: int) -> list[Table]:
    """Return the table for a tree with `whole` bytes; empty for an empty tree."""
    rows: list[Row] = []
    open_calls: list[Call] = []
    for call in tree.calls:
        while open_calls and open_calls[-1].level >= call.level:
            rows += _after(open_calls.pop(), whole, tree.inverted)
        rows.append(_row_outward(call) if tree.inverted else _row(call))
        open_calls.append(call)
    while open_calls:
        rows += _after(open_calls.pop(), whole, tree.inverted)
    if tree.hidden_bytes:
        rows.append(_rest(tree.hidden_bytes, whole, "others", 1))
    last = "call, from the allocating function outward (< its callers)"
    last = last if tree.inverted else "call, and the calls that it leads to"
    titles = ("bytes", "share", "count", last)
    return [Table(titles, ("right", "right", "right", "left"), tuple(rows))] if rows else []


def _row(call: Call) -> Row:
    """Format a line's calls, and the location of the innermost call."""
    special = _without_code(call, ends_here=True)
    if special is not None:
        return special
    names = [frame.function or _NAMELESS for frame in call.frames[:-1]]
    if len(names) > _NAMES + 1:
        names = [*names[:_NAMES], f"({len(names) - _NAMES} more)"]
    last = _named_place(call.frames[-1])
    names = [*names, last.function]
    return _row_of(call, Place(" > ".join(names), last.file, last.line))


def _row_outward(call: Call) -> Row:
    """Format the innermost call's location, followed by as many callers as fit."""
    special = _without_code(call, ends_here=call.own_bytes == call.bytes)
    if special is not None:
        return special
    callers = [frame.function or _NAMELESS for frame in call.frames[1:]]
    if len(callers) > _NAMES + 1:
        callers = [*callers[:_NAMES], f"({len(callers) - _NAMES} more)"]
    first = _named_place(call.frames[0])
    return _row_of(call, replace(first, note="".join(f"< {name} " for name in callers).rstrip()))


def _without_code(call: Call, *, ends_here: bool) -> Row | None:
    """Format calls without user code. `ends_here`: the stacks have no other frame."""
    if not call.frames:
        return replace(_row_of(call, Place(call.label)), style="dim")
    if ends_here and len(call.frames) == 1 and call.level == 1:
        # As in tables, use the autograd node, because autograd's threads run no user code.
        short = short_function(call.frames[0].function)
        return _row_of(call, Place(short)) if short else None
    return None


def _named_place(frame: Frame) -> Place:
    place = place_of(frame)
    return place if place.function else replace(place, function=_NAMELESS)


def _row_of(call: Call, place: Place) -> Row:
    numbers = (size(call.bytes), percent(call.share), count(call.count))
    return Row((*numbers, replace(place, function=_indent(call.level) + place.function)))


def _after(call: Call, whole: int, inverted: bool) -> list[Row]:
    """Return rows for a call's own bytes (if it makes further calls) and for its hidden calls."""
    rows = []
    if call.own_count and call.own_bytes != call.bytes:
        own = "(no caller)" if inverted else "(itself)"
        rows.append(_rest(call.own_bytes, whole, own, call.level + 1))
    if call.hidden and call.hidden_bytes:
        words = counted(call.hidden, "more caller" if inverted else "more call")
        rows.append(_rest(call.hidden_bytes, whole, words, call.level + 1))
    return rows


def _rest(n_bytes: int, whole: int, words: str, level: int) -> Row:
    numbers = (size(n_bytes), percent(share(n_bytes, whole)), "")
    return Row((*numbers, Place(_indent(level) + words)), style="dim")


def _indent(level: int) -> str:
    return "  " * min(level - 1, _DEEPEST)
