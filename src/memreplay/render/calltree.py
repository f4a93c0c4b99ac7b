"""Writes a tree of calls as a table."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.code.operators import backward_of
from memreplay.analysis.groups.tree import Call, CallTree
from memreplay.render.document import Place, Row, Table
from memreplay.render.holders import place_of, share
from memreplay.render.units import count, counted, percent, size

_NAMES = 2  # of a line's outermost frames; the others are counted, up to the last
_DEEPEST = 20  # levels that are set in further than the one before


def tree_table(tree: CallTree, whole: int) -> list[Table]:
    """The table of a tree of `whole` bytes; none of an empty one."""
    rows: list[Row] = []
    open_calls: list[Call] = []
    for call in tree.calls:
        while open_calls and open_calls[-1].level >= call.level:
            rows += _after(open_calls.pop(), whole)
        rows.append(_row(call))
        open_calls.append(call)
    while open_calls:
        rows += _after(open_calls.pop(), whole)
    if tree.hidden_bytes:
        rows.append(_rest(tree.hidden_bytes, whole, "others", 1))
    titles = ("bytes", "share", "count", "call, and what it leads to")
    return [Table(titles, ("right", "right", "right", "left"), tuple(rows))] if rows else []


def _row(call: Call) -> Row:
    numbers = (size(call.bytes), percent(call.share), count(call.count))
    indent = _indent(call.level)
    if not call.frames:
        return Row((*numbers, Place(indent + call.label)), style="dim")
    names = [frame.function or "(no function)" for frame in call.frames[:-1]]
    if len(names) > _NAMES + 1:
        names = [*names[:_NAMES], f"({len(names) - _NAMES} more)"]
    last = place_of(call.frames[-1])
    if not last.function:
        last = replace(last, function="(no function)")
    node = backward_of(call.frames)
    if node and len(call.frames) == 1 and call.level == 1:
        # As in tables: what an autograd thread ran, which no code of the user's is on.
        return Row((*numbers, Place(indent + f"{node} (autograd)")))
    return Row(
        (*numbers, Place(indent + " > ".join([*names, last.function]), last.file, last.line))
    )


def _after(call: Call, whole: int) -> list[Row]:
    """What of a call has no line below it: its own, where others are below it, and those hidden."""
    rows = []
    if call.own_count and call.own_bytes != call.bytes:
        rows.append(_rest(call.own_bytes, whole, "(itself)", call.level + 1))
    if call.hidden and call.hidden_bytes:
        words = counted(call.hidden, "more call")
        rows.append(_rest(call.hidden_bytes, whole, words, call.level + 1))
    return rows


def _rest(n_bytes: int, whole: int, words: str, level: int) -> Row:
    numbers = (size(n_bytes), percent(share(n_bytes, whole)), "")
    return Row((*numbers, Place(_indent(level) + words)), style="dim")


def _indent(level: int) -> str:
    return "  " * min(level - 1, _DEEPEST)
