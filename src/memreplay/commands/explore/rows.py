"""What holds memory at a moment, in rows that are spelled out when they are seen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memreplay.analysis.groups.dimensions import pool_label, stream_label
from memreplay.analysis.groups.mapped import pool_of
from memreplay.engine.query import _blockmap, _groups
from memreplay.render.fit import clean
from memreplay.render.units import (
    count,
    counted,
    percent,
    signed_count,
    signed_size,
    size,
)

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.commands.explore.allocations import Allocations
    from memreplay.snapshot.model import Frame, Group
    from memreplay.snapshot.replay import Usage

OPEN_SHARE = 0.05  # calls that hold so much are open from the start
FIRST_ROWS = 200  # of groups and allocations, until somebody goes further down
MOST_ROWS = FIRST_ROWS * 4**3  # more take longer than a key may
MORE = -1  # the row that stands for what is cut
REST = -1  # in place of a block: all that are cut


class Line(NamedTuple):
    """A row: its numbers, and what it is called, so deep in a tree."""

    cells: tuple[str, ...]
    text: str
    share: float = 0.0
    level: int = 0
    sign: str = ""  # "+" what can be opened, "-" what can be closed
    dim: bool = False


class Shown(NamedTuple):
    """What is told of a row beside the list: pairs of words, and the frames, innermost first, of
    which some are the user's."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...] = ()
    user: tuple[int, ...] = ()


class Rows(Protocol):
    """Rows of one kind."""

    titles: tuple[str, ...]
    note: str

    def __len__(self) -> int: ...

    def line(self, at: int) -> Line:
        """One row."""
        ...

    def key(self, at: int) -> Hashable:
        """What it is of, at other moments, too."""
        ...

    def texts(self, at: int) -> Sequence[str]:
        """What a search looks at."""
        ...

    def shown(self, at: int) -> Shown:
        """What is told of it."""
        ...


def frame_texts(frames: Sequence[Frame]) -> list[str]:
    """As filters look at frames."""
    return [f"{one.function} {one.file}:{one.line}" for one in frames]


def _how(shown: int) -> str:
    """How to come by what is cut."""
    return "Enter shows more" if shown < MOST_ROWS else "f filters them"


class GroupRows:
    """The groups of a live set."""

    titles: tuple[str, ...] = ("bytes", "share", "count")

    def __init__(self, grouper: Grouper, usage: Usage, event: int, most: int = FIRST_ROWS) -> None:
        self.grouper, self.usage, self.event = grouper, usage, event
        keys = grouper.keys(usage)
        found, self.total, self.whole, self.blocks = keys.sums(
            usage.listed(event), usage.native, most
        )
        self.found = found
        self.rest = self.total - len(found)
        self.note = "" if found else "nothing was held"
        self._groups: dict[int, Group] = {}

    def __len__(self) -> int:
        return len(self.found) + (self.rest > 0)

    def group(self, at: int) -> Group:
        """Spelled out."""
        if at not in self._groups:
            name, _, n_bytes, blocks, _ = self.found[at]
            self._groups[at] = self.grouper.group(self.usage, name, n_bytes, blocks, self.whole)
        return self._groups[at]

    def line(self, at: int) -> Line:
        if at == len(self.found):
            held = self.whole - sum(row[2] for row in self.found)
            blocks = self.blocks - sum(row[3] for row in self.found)
            words = f"{counted(self.rest, 'more group')} ({_how(len(self.found))})"
            cells = (size(held), percent(held / self.whole if self.whole else 0), count(blocks))
            return Line(cells, words, dim=True)
        group = self.group(at)
        return Line(
            (size(group.bytes), percent(group.share), count(group.count)),
            clean(group.label),
            group.share,
        )

    def key(self, at: int) -> Hashable:
        return MORE if at == len(self.found) else self.found[at][0]

    def texts(self, at: int) -> Sequence[str]:
        if at == len(self.found):
            return ()
        group = self.group(at)
        return [group.label, *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        if at == len(self.found):
            return Shown("the rest", ())
        group = self.group(at)
        pairs = (
            ("held", f"{size(group.bytes)} ({count(group.bytes)} bytes)"),
            ("share", percent(group.share)),
            ("blocks", count(group.count)),
        )
        return Shown(clean(group.label), pairs, group.frames, group.user)


class PartRows:
    """The pools or streams of a measure."""

    titles: tuple[str, ...] = ("bytes", "share", "peak")

    def __init__(self, grouper: Grouper, usage: Usage, event: int) -> None:
        self.groups, total, _, self.parts = grouper.holders(usage, event, 0)
        self.whole = usage.bytes_at(event)
        self.note = "" if total else "nothing was held"

    def __len__(self) -> int:
        return len(self.groups)

    def line(self, at: int) -> Line:
        group, part = self.groups[at], self.parts[at]
        cells = size(group.bytes), percent(group.share), size(part.peak_bytes)
        return Line(cells, clean(group.label), group.share)

    def key(self, at: int) -> Hashable:
        return self.groups[at].label

    def texts(self, at: int) -> Sequence[str]:
        return (self.groups[at].label,)

    def shown(self, at: int) -> Shown:
        part = self.parts[at]
        pairs = (
            ("held", f"{size(part.bytes)} ({count(part.bytes)} bytes)"),
            ("its peak", f"{size(part.peak_bytes)} after event {count(part.event_index)}"),
            ("reserved", size(part.reserved_bytes)),
        )
        return Shown(clean(self.groups[at].label), pairs)


class ListRows:
    """The allocations one by one, the largest first."""

    titles: tuple[str, ...] = ("bytes", "address", "age")

    def __init__(self, allocations: Allocations, most: int = FIRST_ROWS) -> None:
        self.allocations = allocations
        usage, event = allocations.usage, allocations.event
        self.found = usage.largest(event, most)
        allocs, carried = usage.listed(event)
        self.total = len(memoryview(allocs)) + len(memoryview(carried))
        self.rest = self.total - len(self.found)
        self.whole = usage.bytes_at(event)
        self.note = "" if self.found else "nothing was held"

    def __len__(self) -> int:
        return len(self.found) + (self.rest > 0)

    def group(self, at: int) -> Group:
        index, carried, n_bytes, _ = self.found[at]
        return self.allocations.group(index, n_bytes, self.whole, carried=carried)

    def address(self, at: int) -> int:
        """Where it is."""
        index, carried, _, _ = self.found[at]
        return self.allocations.address(index, carried=carried)

    def line(self, at: int) -> Line:
        if at == len(self.found):
            held = self.whole - sum(row[2] for row in self.found)
            words = f"{counted(self.rest, 'more allocation')} ({_how(len(self.found))})"
            return Line((size(held), "", ""), words, dim=True)
        index, carried, _, _ = self.found[at]
        group, age = self.group(at), self.allocations.age(index, carried=carried)
        cells = size(group.bytes), f"{self.address(at):x}", age
        return Line(cells, clean(group.label), group.share)

    def key(self, at: int) -> Hashable:
        return MORE if at == len(self.found) else self.found[at][:2]

    def texts(self, at: int) -> Sequence[str]:
        if at == len(self.found):
            return ()
        group = self.group(at)
        return [group.label, f"0x{self.address(at):x}", *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        if at == len(self.found):
            return Shown("the rest", ())
        index, carried, n_bytes, end = self.found[at]
        group = self.group(at)
        pairs = (
            ("address", f"0x{self.address(at):x}"),
            ("held", f"{size(n_bytes)} ({count(n_bytes)} bytes)"),
            *self.allocations.pairs(index, end, carried=carried),
        )
        return Shown(clean(group.label), pairs, group.frames, group.user)


class Flow(NamedTuple):
    """What a group held before a range, what came and went in it: bytes, and allocations."""

    before_bytes: int
    before: int
    came_bytes: int
    came: int
    went_bytes: int
    went: int

    @property
    def after_bytes(self) -> int:
        return self.before_bytes + self.came_bytes - self.went_bytes

    @property
    def after(self) -> int:
        return self.before + self.came - self.went

    @property
    def change_bytes(self) -> int:
        return self.came_bytes - self.went_bytes


class ChangeRows:
    """What a range of events did to the groups: what came and went in it, those that it changed
    most first. The span is of the event that it comes after, and its last."""

    titles: tuple[str, ...] = ("change", "came", "went", "after")

    def __init__(
        self, grouper: Grouper, usage: Usage, span: tuple[int, int], most: int = FIRST_ROWS
    ) -> None:
        self.grouper, self.usage = grouper, usage
        found, self.total, moved, _ = usage.traffic(grouper.keys(usage), *span, most)
        self.found = [(name, Flow(*sums)) for name, *sums in found]
        self.whole = Flow(*moved)
        self.rest = self.total - len(found)
        self.most = abs(self.found[0][1].change_bytes) if self.found else 0
        self.note = "" if self.found else "nothing came or went"

    def __len__(self) -> int:
        return len(self.found) + (self.rest > 0)

    def group(self, at: int) -> Group:
        name, flow = self.found[at]
        return self.grouper.group(self.usage, name, flow.after_bytes, flow.after, 0)

    def flow(self, at: int) -> Flow:
        """Of a row; the last one may be that of all that are cut."""
        if at < len(self.found):
            return self.found[at][1]
        shown = (sum(one) for one in zip(*(flow for _, flow in self.found), strict=True))
        return Flow(*(whole - part for whole, part in zip(self.whole, shown, strict=True)))

    def line(self, at: int) -> Line:
        flow = self.flow(at)
        cells = (
            signed_size(flow.change_bytes),
            size(flow.came_bytes),
            size(flow.went_bytes),
            size(flow.after_bytes),
        )
        if at == len(self.found):
            words = f"{counted(self.rest, 'more group')} ({_how(len(self.found))})"
            return Line(cells, words, dim=True)
        share = abs(flow.change_bytes) / self.most if self.most else 0.0
        return Line(cells, clean(self.group(at).label), share)

    def key(self, at: int) -> Hashable:
        return MORE if at == len(self.found) else self.found[at][0]

    def texts(self, at: int) -> Sequence[str]:
        if at == len(self.found):
            return ()
        group = self.group(at)
        return [group.label, *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        flow = self.flow(at)
        more = flow.came - flow.went
        blocks = f"{signed_count(more)} block" + "s" * (abs(more) != 1)
        pairs = (
            ("before", f"{size(flow.before_bytes)} in {counted(flow.before, 'block')}"),
            ("came", f"{size(flow.came_bytes)} in {counted(flow.came, 'block')}"),
            ("went", f"{size(flow.went_bytes)} in {counted(flow.went, 'block')}"),
            ("after", f"{size(flow.after_bytes)} in {counted(flow.after, 'block')}"),
            ("change", f"{signed_size(flow.change_bytes)}, {blocks}"),
        )
        if at == len(self.found):
            return Shown("the rest", pairs)
        group = self.group(at)
        return Shown(clean(group.label), pairs, group.frames, group.user)


class TreeRows:
    """A live set as a tree of calls, of which those that are open show what they lead to."""

    titles: tuple[str, ...] = ("bytes", "share", "count")

    def __init__(
        self,
        grouper: Grouper,
        usage: Usage,
        event: int,
        *,
        whole: bool,
        inverted: bool,
        share: float,
        is_open: Callable[[Hashable], bool | None],
        root: Hashable | None = None,
    ) -> None:
        self.grouper, self.usage = grouper, usage
        self.bytes = usage.bytes_at(event)
        least = -(-int(self.bytes * share * 1_000_000) // 1_000_000)
        keys = grouper.dimensions.keys(usage, "stack")
        self.rows = _groups.call_tree(
            keys, usage.listed(event), usage.native, whole, 0, least, inverted
        )
        self.is_open, self.inverted = is_open, inverted
        self.keys: list[Hashable] = []
        self.until: list[int] = []  # of each row the one after all below it
        self.hidden: list[list[int]] = []  # calls that are left out, and their bytes
        self._measured()
        self.root = next((i for i, key in enumerate(self.keys) if key == root), None)
        self.visible: list[int] = []
        self.note = ""
        self.unfold()

    def _measured(self) -> None:
        above: list[int] = []
        shown = 0
        for at, (level, ids, n_bytes, _, own, _, children) in enumerate(self.rows):
            while len(above) >= level:
                self.until[above.pop()] = at
            self.keys.append(hash((self.keys[above[-1]] if above else 0, ids)))
            self.until.append(len(self.rows))
            self.hidden.append([children, n_bytes - own])
            if above:
                self.hidden[above[-1]][0] -= 1
                self.hidden[above[-1]][1] -= n_bytes
            else:
                shown += n_bytes
            above.append(at)
        self.left_out = self.bytes - shown

    def unfold(self) -> None:
        """Which rows are seen: all whose callers are open. What is left out below one is a row by
        itself, ~ its number."""
        found: list[int] = []
        at, end = 0, len(self.rows)
        if self.root is not None:
            at, end = self.root, self.until[self.root]
        ends: list[tuple[int, int]] = []  # of open rows: where they end, and which it is
        while at < end:
            while ends and ends[-1][0] <= at:
                found += self._left_out(ends.pop()[1])
            found.append(at)
            if self.opened(at):
                ends.append((self.until[at], at))
                at += 1
            else:
                at = self.until[at]
        while ends:
            found += self._left_out(ends.pop()[1])
        self.visible = found
        if not found:
            self.note = "nothing was held" if not self.bytes else "no call holds that much"

    def _left_out(self, at: int) -> list[int]:
        return [~at] if self.hidden[at][0] > 0 else []

    def can_open(self, at: int) -> bool:
        """Whether there is anything below it."""
        return self.until[at] > at + 1 or self.hidden[at][0] > 0

    def opened(self, at: int) -> bool:
        """Whether what is below it is seen."""
        if not self.can_open(at):
            return False
        asked = self.is_open(self.keys[at])
        if asked is not None:
            return asked
        return at == self.root or self.rows[at][2] >= OPEN_SHARE * self.bytes

    def __len__(self) -> int:
        return len(self.visible) + (self.left_out > 0 and self.root is None)

    def _frames(self, at: int) -> tuple[Frame, ...]:
        ids = self.rows[at][1]
        if ids[0] in (_groups.CALL_NO_STACK, _groups.CALL_CARRIED):
            return ()
        return tuple(map(self.grouper.snap.frame, ids))

    def _label(self, at: int) -> str:
        ids = self.rows[at][1]
        dimensions = self.grouper.dimensions
        if ids[0] == _groups.CALL_NO_STACK:
            return dimensions.label(self.usage, "stack", _groups.NO_STACK).text
        if ids[0] == _groups.CALL_CARRIED:
            return dimensions.label(self.usage, "stack", _groups.CARRIED).text
        return dimensions.frame_label(ids[0 if self.inverted else -1])

    def line(self, row: int) -> Line:
        if row == len(self.visible):
            part = self.left_out / self.bytes if self.bytes else 0.0
            words = "smaller calls (Enter shows them)"
            return Line((size(self.left_out), percent(part), ""), words, dim=True)
        at = self.visible[row]
        top = self.rows[self.root][0] if self.root is not None else 1
        if at < 0:
            calls, n_bytes = self.hidden[~at]
            part = n_bytes / self.bytes if self.bytes else 0.0
            words = f"{counted(calls, 'smaller call')} (Enter shows them)"
            level = self.rows[~at][0] - top + 1
            return Line((size(n_bytes), percent(part), ""), words, part, level, dim=True)
        level, ids, n_bytes, blocks, *_ = self.rows[at]
        share = n_bytes / self.bytes if self.bytes else 0.0
        sign = ("-" if self.opened(at) else "+") if self.can_open(at) else ""
        words = clean(self._label(at))
        if len(ids) > 1:
            words += f"  (+{len(ids) - 1})"
        return Line((size(n_bytes), percent(share), count(blocks)), words, share, level - top, sign)

    def key(self, row: int) -> Hashable:
        if row == len(self.visible):
            return MORE
        at = self.visible[row]
        return ("more", self.keys[~at]) if at < 0 else self.keys[at]

    def texts(self, row: int) -> Sequence[str]:
        if row == len(self.visible) or self.visible[row] < 0:
            return ()
        return self.texts_of(self.visible[row])

    def texts_of(self, at: int) -> Sequence[str]:
        """Of any row, seen or not."""
        frames = self._frames(at)
        return frame_texts(frames) if frames else [self._label(at)]

    def shown(self, row: int) -> Shown:
        if row == len(self.visible) or self.visible[row] < 0:
            return Shown("smaller calls", ())
        at = self.visible[row]
        _, _, n_bytes, blocks, own, own_blocks, _ = self.rows[at]
        pairs = [
            ("held", f"{size(n_bytes)} ({count(n_bytes)} bytes)"),
            ("share", percent(n_bytes / self.bytes if self.bytes else 0.0)),
            ("blocks", count(blocks)),
        ]
        if own and own != n_bytes:
            pairs.append(("by itself", f"{size(own)} in {counted(own_blocks, 'block')}"))
        path: list[Frame] = []
        for one in self._path(at):
            path += self._frames(one)
        frames = tuple(path if self.inverted else reversed(path))
        user = range(len(frames))
        return Shown(clean(self._label(at)), tuple(pairs), frames, tuple(user))

    def _path(self, at: int) -> list[int]:
        """The calls from the outermost to this one."""
        found = [at]
        level = self.rows[at][0]
        for above in range(at - 1, -1, -1):
            if self.rows[above][0] < level:
                found.append(above)
                level = self.rows[above][0]
        return found[::-1]

    def all_keys(self) -> list[Hashable]:
        """Of all calls, seen or not."""
        return self.keys

    def parents(self, at: int) -> list[Hashable]:
        """The keys of the calls that lead to it."""
        return [self.keys[one] for one in self._path(at)[:-1]]


class Block(NamedTuple):
    """A block of a segment, in use, pending or free."""

    address: int
    size: int
    requested: int
    state: str
    owner: int  # who has it: an alloc event, or a carried block behind CARRIED

    @property
    def carried(self) -> bool:
        return self.owner >= _blockmap.CARRIED

    @property
    def allocation(self) -> int:
        """Its number, as Allocations counts them."""
        return self.owner & ~_blockmap.CARRIED


STATES = {
    _blockmap.FREE: "free",
    _blockmap.IN_USE: "in use",
    _blockmap.PENDING: "pending",
}


class SegmentRows:
    """The segments after an event, those with most free first, and how blocks lie in them; those
    that are open (their addresses) show their blocks, by address.

    `allocations` are those of the measure `active`.
    """

    titles: tuple[str, ...] = ("size", "in use", "free")

    def __init__(
        self, allocations: Allocations, opened: set[int], most: int = FIRST_ROWS, cells: int = 30
    ) -> None:
        self.allocations, self.opened = allocations, opened
        self.most, self.cells = most, cells
        self.replay = allocations.replay
        self.map = self.replay.block_map(allocations.event)
        self.order = self.map.largest(0)
        self.note = "" if self.order else "no segments were reserved"
        # A segment, and of it nothing, the number of a block, or REST: all blocks that are cut.
        self.visible: list[tuple[int, int | None]] = []
        self._columns: list[memoryview] = []
        self._rests: dict[int, dict[str, int]] = {}
        self.unfold()

    def unfold(self) -> None:
        """Which rows are seen."""
        if not self.opened:
            self.visible = [(segment, None) for segment in self.order]
            return
        self.visible = []
        for segment in self.order:
            self.visible.append((segment, None))
            address, *_, first, tiles, _ = self.map.segment(segment)
            if address in self.opened:
                shown = min(tiles, self.most)
                self.visible += [(segment, first + i) for i in range(shown)]
                if tiles > shown:
                    self.visible.append((segment, REST))

    def toggle(self, row: int) -> None:
        """Opens or closes the segment that a row is of."""
        segment, part = self.visible[row]
        if part is None:
            self.opened ^= {self.map.segment(segment)[0]}
            self.unfold()

    def is_rest(self, row: int) -> bool:
        """Whether a row stands for blocks that are cut."""
        return self.visible[row][1] == REST

    def block(self, number: int) -> Block:
        """A block of the map."""
        if not self._columns:
            names = ("address", "size", "requested", "state", "owner")
            self._columns = [memoryview(self.map.tiles(name)) for name in names]
        address, n_bytes, requested, state, owner = (one[number] for one in self._columns)
        return Block(address, n_bytes, requested, STATES[state], owner)

    def rest(self, segment: int) -> dict[str, int]:
        """What the blocks that are cut have: `blocks`, and bytes: `size`, `in use`, `pending`,
        `free`, `requested`."""
        if segment in self._rests:
            return self._rests[segment]
        *_, first, tiles, sums = self.map.segment(segment)
        found = {"blocks": tiles - self.most, "size": sums["size"], "requested": sums["requested"]}
        found |= {"in use": sums["in_use"], "pending": sums["pending"], "free": sums["free"]}
        for number in range(first, first + self.most):
            block = self.block(number)
            found["size"] -= block.size
            found["requested"] -= block.requested
            found[block.state] -= block.size
        self._rests[segment] = found
        return found

    def group(self, block: Block) -> Group | None:
        """Whose a block is; None where it is free."""
        if block.state == "free":
            return None
        allocations, index = self.allocations, block.allocation
        return allocations.group(index, block.size, 0, carried=block.carried)

    def __len__(self) -> int:
        return len(self.visible)

    def line(self, at: int) -> Line:
        segment, part = self.visible[at]
        address, *_, sums = self.map.segment(segment)
        if part is None:
            held, used = sums["size"], sums["in_use"]
            cells = size(held), size(used), size(sums["free"])
            text = f"{self.map.bar(segment, self.cells)}  {address:x}"
            sign = "-" if address in self.opened else "+"
            return Line(cells, text, used / held if held else 0.0, sign=sign)
        if part == REST:
            rest = self.rest(segment)
            words = counted(rest["blocks"], "more block")
            words += " (Enter shows more)" if self.most < MOST_ROWS else ""
            cells = size(rest["size"]), size(rest["in use"]), size(rest["free"])
            return Line(cells, words, level=1, dim=True)
        block = self.block(part)
        used, free = block.state == "in use", block.state == "free"
        cells = size(block.size), size(block.size) if used else "", size(block.size) if free else ""
        text = f"{block.address:x}  {'' if used else block.state}"
        group = self.group(block)
        if group is not None:
            text += f"{'' if used else '  '}{size(block.requested):>9}  {clean(group.label)}"
        return Line(cells, text, block.size / sums["size"] if used else 0.0, level=1, dim=free)

    def key(self, at: int) -> Hashable:
        segment, part = self.visible[at]
        if part is None or part == REST:
            address = self.map.segment(segment)[0]
            return address if part is None else ("more", address)
        return "block", self.block(part).address

    def texts(self, at: int) -> Sequence[str]:
        segment, part = self.visible[at]
        if part == REST:
            return ()
        if part is None:
            return (f"0x{self.map.segment(segment)[0]:x}",)
        block = self.block(part)
        group = self.group(block)
        texts = [f"0x{block.address:x}", block.state]
        return texts if group is None else [*texts, group.label, *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        segment, part = self.visible[at]
        if part is not None:
            return self._rest_shown(segment) if part == REST else self._block_shown(part)
        found = self.map.segment(segment)
        address, stream, pool, small, expandable, _, _, _, sums = found
        known = pool_of(self.replay, self.map, pool)
        pairs = (
            ("address", f"0x{address:x}"),
            ("size", f"{size(sums['size'])}, {'small' if small else 'large'} blocks"),
            ("in use", f"{size(sums['in_use'])} in {counted(sums['blocks_in_use'], 'block')}"),
            ("pending", f"{size(sums['pending'])} in {counted(sums['blocks_pending'], 'block')}"),
            ("free", f"{size(sums['free'])} in {counted(sums['blocks_free'], 'block')}"),
            ("largest free", size(sums["largest"])),
            ("requested", size(sums["requested"])),
            ("pool", pool_label(known)),
            ("stream", stream_label(stream)),
            ("expandable", "yes" if expandable else "no"),
        )
        return Shown(f"segment at 0x{address:x}", pairs)

    def _rest_shown(self, segment: int) -> Shown:
        rest = dict(self.rest(segment))
        pairs = [("blocks", count(rest.pop("blocks")))]
        pairs += [(name, size(n_bytes)) for name, n_bytes in rest.items()]
        return Shown("the rest", tuple(pairs))

    def _block_shown(self, number: int) -> Shown:
        block = self.block(number)
        pairs = [
            ("address", f"0x{block.address:x}"),
            ("state", block.state),
            ("size", f"{size(block.size)} ({count(block.size)} bytes)"),
        ]
        group = self.group(block)
        if group is None:
            return Shown("free block", tuple(pairs))
        pairs.append(("requested", f"{size(block.requested)} ({count(block.requested)} bytes)"))
        allocations, carried = self.allocations, block.carried
        native = allocations.usage.native
        ends = memoryview(native.carried_ends() if carried else native.ends())
        pairs += allocations.pairs(block.allocation, ends[block.allocation], carried=carried)
        return Shown(clean(group.label), tuple(pairs), group.frames, group.user)
