"""Number and name the groups of a device's allocations for each grouping key."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from memreplay.analysis.groups.ways import WAYS, pinned_title_of, title_of
from memreplay.analysis.groups.ways.base import STACK, Way
from memreplay.analysis.groups.ways.blocks import ByPart, BySize, size_label
from memreplay.engine.query._vectors import counting, joined, vector, zeros
from memreplay.export.page.records import PageGroups
from memreplay.render.holders import coded_row, distinguish_rows
from memreplay.snapshot.model import Coded, Label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.engine.query._groups import Keys
    from memreplay.engine.query._vectors import Vector
    from memreplay.export.page.coding import Coded as CodedColumn
    from memreplay.export.page.coding import Columns
    from memreplay.export.page.lives import Lives
    from memreplay.export.page.texts import Texts
    from memreplay.snapshot.replay import Replay

_PART = 1 << 15  # rows per chunk
_MOST_TOGETHER = 1 << 22  # maximum number of groups if several keys are combined


class Grouping:
    """Groups one device's allocations. Adds texts and columns to those of the page."""

    def __init__(
        self, replay: Replay, those: Lives, dimensions: Dimensions, columns: Columns, texts: Texts
    ) -> None:
        self._replay = replay
        self._usage = replay.measure("requested")
        self._those = those
        self._dimensions = dimensions
        self._columns = columns
        self._texts = texts
        self._carried = replay.carried_blocks
        self._stacks = those.stack.distinct()

    def all(self, pool: CodedColumn, stream: CodedColumn) -> tuple[PageGroups, ...]:
        """Return the groups by stack, size and every other useful key; empty if nothing was
        allocated.

        The arguments are the columns with each allocation's pool and stream.
        """
        if not len(self._those.begin):
            return ()
        parts = {"pool": (self._those.pool, pool), "stream": (self._those.stream, stream)}
        found: list[PageGroups | None] = []
        for way in map(self._dimensions.way, WAYS):
            if isinstance(way, BySize):
                found.append(self._sizes(way))
            elif isinstance(way, ByPart):
                found.append(self._parts(way, *parts[way.name]))
            else:
                found.append(self._keyed(way))
        return tuple(one for one in found if one is not None)

    def _sizes(self, way: BySize) -> PageGroups:
        largest = max(self._those.block.max(), self._those.requested.max())
        names = (size_label(bits) for bits in range(largest.bit_length() + 1))
        return _page_groups(way, self._plain(names), None, None)

    def _parts(self, way: ByPart, numbers: Vector, column: CodedColumn) -> PageGroups | None:
        """Group by pool or stream. Allocations already have these numbers."""
        names = way.labels(self._replay)
        if {names[one] for one in numbers.distinct()} <= way.nothing:
            return None
        return _page_groups(way, self._plain(names), None, column)

    def _keyed(self, way: Way) -> PageGroups | None:
        if way.is_uninformative(self._replay):
            return None
        keys = self._dimensions.keys(self._usage, way.name)
        groups, numbers = self._of_stacks(keys) or self._of_lives(keys)
        labels = [way.label(self._usage, name) for name in vector(keys.names())[groups]]
        if way.code != STACK and {one.text for one in labels} <= way.nothing:
            return None
        column = self._columns.add(numbers)
        by_stack = keys.of_stacks() is not None
        lines = self._lines(way.name, labels)
        of_stacks, of_lives = (column, None) if by_stack else (None, column)
        return _page_groups(way, lines, of_stacks, of_lives)

    def _of_stacks(self, keys: Keys) -> tuple[Vector, Vector] | None:
        """Return the group keys, and each stack's index into the keys; None if stacks don't
        determine groups.
        """
        column = keys.of_stacks()
        if column is None:
            return None
        # The first is the empty stack. The last is for carried-over blocks without a stack.
        of = vector(column)
        found = joined([of[:-1], of[:1], of[-1:]])
        groups, used = found[self._stacks].numbered()
        numbers = zeros(len(found), "I")
        numbers[self._stacks] = used
        return groups, numbers

    def _of_lives(self, keys: Keys) -> tuple[Vector, Vector]:
        """Return the group keys, and each allocation's index into the keys."""
        # Keys that combine others are computed once per distinct value.
        leaves = _leaves(keys)
        parts = [self._of_stacks(leaf) or self._numbers(leaf) for leaf in leaves]
        if leaves == [keys]:
            return parts[0]
        if prod(len(groups) for groups, _ in parts) > _MOST_TOGETHER:
            return self._numbers(keys)
        together = zeros(len(self._those.begin), "I")
        for leaf, (groups, numbers) in zip(leaves, parts, strict=True):
            by_stack = leaf.of_stacks() is not None
            for at in range(0, len(together), _PART):
                some = slice(at, at + _PART)
                group = numbers[self._those.stack[some]] if by_stack else numbers[some]
                together[some] = together[some] * len(groups) + group
        there, places = together.numbered()
        first = zeros(len(there))
        first[places[::-1]] = counting(len(places))[::-1]
        order = first.order()
        found, of_first = self._numbers(keys, first[order])
        return found, of_first[order.order()[places]]

    def _numbers(self, keys: Keys, some: Vector | None = None) -> tuple[Vector, Vector]:
        """Return the group keys, and an index into the keys for all allocations or for `some`."""
        rows = counting(self._carried) if some is None else some[some < self._carried]
        begin = self._those.begin if some is None else self._those.begin[some]
        of_events, of_carried = keys.numbers(begin[len(rows) :].as_format("q"), rows)
        return joined([of_carried, of_events], "I").numbered()

    # ---- names

    def _plain(self, names: Iterable[str]) -> tuple[tuple[int, ...], ...]:
        return tuple((self._texts.place(name),) for name in names)

    def _lines(self, way: str, labels: list[Label]) -> tuple[tuple[int, ...], ...]:
        named = [_named(label) for label in labels]
        rows = distinguish_rows([coded_row((), one, way, all_frames=False) for one in named], named)
        label = self._texts.label
        return tuple((label(row.cells[-1]), *(label(one) for one, _ in row.below)) for row in rows)


def _page_groups(
    way: Way,
    lines: tuple[tuple[int, ...], ...],
    of_stacks: CodedColumn | None,
    of_lives: CodedColumn | None,
) -> PageGroups:
    return PageGroups(
        way=way.name,
        title=title_of(way.name),
        pinned_title=pinned_title_of(way.name),
        detail=way.detail,
        lines=lines,
        of_stacks=of_stacks,
        of_lives=of_lives,
    )


def _leaves(keys: Keys) -> list[Keys]:
    """Return the basic keys that a combined key consists of."""
    return [leaf for one in keys.of for leaf in _leaves(one)] if keys.of else [keys]


def _named(label: Label) -> Coded:
    """Encode a label in the same form as a call site's."""
    said = asdict(label)
    return Coded(label=said.pop("text"), **said)
