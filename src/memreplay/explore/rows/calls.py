"""The live set as a call tree, formatted when visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.code.plumbing import ALLOCATOR, code_of, function_rank
from memreplay.engine.query import _groups
from memreplay.explore.rows.row import MORE, Line, Shown, frame_texts, named
from memreplay.render.blocks import place_text
from memreplay.render.document import Place
from memreplay.render.holders import place_of
from memreplay.render.units import count, counted, percent, size
from memreplay.snapshot.model import Coded
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.model import Frame
    from memreplay.snapshot.replay import Usage

MOST_NAMED = 200  # maximum number of callees whose names are compared
OPEN_SHARE = 0.05  # calls with a larger share start expanded


class TreeShape(NamedTuple):
    """Which tree to show: with whole or shortened stacks, from the callees or the callers, from
    which share of the bytes on, and below which call.
    """

    whole: bool
    inverted: bool
    share: float
    root: Hashable | None = None


class TreeRows:
    """The live set as a call tree. Expanded calls show their callees."""

    titles: tuple[str, ...] = ("bytes", "share", "count")

    def __init__(
        self,
        grouper: Grouper,
        usage: Usage,
        event: int,
        shape: TreeShape,
        is_open: Callable[[Hashable], bool | None],
    ) -> None:
        whole, inverted, share, root = shape
        self.grouper, self.usage = grouper, usage
        self.bytes = usage.bytes_at(event)
        least = -(-int(self.bytes * share * 1_000_000) // 1_000_000)
        keys = grouper.dimensions.keys(usage, "stack")
        self.rows = _groups.call_tree(
            keys, usage.listed(event), usage.native, whole, 0, least, inverted
        )
        self.is_open, self.inverted = is_open, inverted
        self.keys: list[Hashable] = []
        self.until: list[int] = []  # for each row, one past its last descendant
        self.hidden: list[list[int]] = []  # number of hidden calls, and their bytes
        self.callers: list[int] = []  # rows; -1 for calls at level 1
        self._named: dict[int, Counter[tuple[Place, ...]]] = {}  # callees' names, by caller
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
            self.callers.append(above[-1] if above else -1)
            self.hidden.append([children, n_bytes - own])
            if above:
                self.hidden[above[-1]][0] -= 1
                self.hidden[above[-1]][1] -= n_bytes
            else:
                shown += n_bytes
            above.append(at)
        self.left_out = self.bytes - shown

    def unfold(self) -> None:
        """Compute the visible rows, whose callers are all expanded.

        Hidden calls below row i share one row, numbered ~i.
        """
        found: list[int] = []
        at, end = 0, len(self.rows)
        if self.root is not None:
            at, end = self.root, self.until[self.root]
        ends: list[tuple[int, int]] = []  # for expanded rows: where they end, and their index
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
        """Return whether a row has children."""
        return self.until[at] > at + 1 or self.hidden[at][0] > 0

    def opened(self, at: int) -> bool:
        """Return whether a row is expanded."""
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
        level, ids = self.rows[at][:2]
        dimensions = self.grouper.dimensions
        if ids[0] == _groups.CALL_NO_STACK:
            return dimensions.label(self.usage, "stack", _groups.NO_STACK).text
        if ids[0] == _groups.CALL_CARRIED:
            return dimensions.label(self.usage, "stack", _groups.CARRIED).text
        return self.grouper.known.call_label(ids, level, inverted=self.inverted)

    def _places(self, at: int) -> tuple[Place, ...]:
        """Return the locations that name a row, like a stack of its calls: the user's innermost
        line and the operator and library that it called, or else whatever ran.
        """
        if not self._frames(at):
            return (Place(self._label(at)),)
        level, ids = self.rows[at][:2]
        one = self._coded(ids if self.inverted else ids[::-1])
        inner = one.frames[0]
        if one.user or (level == 1 and len(ids) == 1) or function_rank(inner.function) == ALLOCATOR:
            return tuple(replace(place, source="") for place in named(one))
        return (place_of(inner),)

    def _distinct(self, at: int) -> tuple[Place, ...]:
        """Return a row's locations. If another call by the same caller has the same ones, add the
        outermost frame, which differs.
        """
        caller, found = self.callers[at], self._places(at)
        if caller not in self._named:
            some = islice(self._callees(caller), MOST_NAMED)
            self._named[caller] = Counter(map(self._places, some))
        if self._named[caller][found] <= 1:
            return found
        frame = self._frames(at)[-1 if self.inverted else 0]
        differs = place_of(frame)
        return (found[0], replace(differs, function=f"… {differs.function}"), *found[1:])

    def _callees(self, caller: int) -> Iterator[int]:
        """Yield the calls by one caller, largest first; -1 for the calls at level 1."""
        at, end = caller + 1, self.until[caller] if caller >= 0 else len(self.rows)
        while at < end:
            yield at
            at = self.until[at]

    def _coded(self, ids: Sequence[int]) -> Coded:
        """Return the frames, and which of them are the user's and the libraries'."""
        snap, rank = self.grouper.snap, self.grouper.file_rank
        user, libraries = code_of([rank[snap.code.frame(one)[1]] for one in ids])
        frames = tuple(map(snap.frame, ids))
        return Coded(label="", frames=frames, user=user, libraries=libraries)

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
        places = self._distinct(at)
        more = len(ids) - len(places)
        return Line(
            (size(n_bytes), percent(share), count(blocks)),
            "  ".join(map(place_text, places)),
            share,
            level - top,
            sign,
            places=places,
            tail=f"(+{more})" if more > 0 else "",
        )

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
        """Return any row's text, visible or not."""
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
        path: list[int] = []
        for one in self._path(at):
            path += self.rows[one][1] if self._frames(one) else ()
        ids = path if self.inverted else path[::-1]
        whole, title = self._coded(ids), clean(self._label(at))
        return Shown(
            title, tuple(pairs), whole.frames, whole.user, whole.libraries, self._places(at)
        )

    def _path(self, at: int) -> list[int]:
        """Return the calls from the outermost to this one."""
        found = [at]
        level = self.rows[at][0]
        for above in range(at - 1, -1, -1):
            if self.rows[above][0] < level:
                found.append(above)
                level = self.rows[above][0]
        return found[::-1]

    def all_keys(self) -> list[Hashable]:
        """Return the keys of all calls, visible or not."""
        return self.keys

    def keys_below(self, row: int) -> list[Hashable]:
        """Return the keys of a row's call and of all calls below it."""
        at = self.visible[row] if row < len(self.visible) else -1
        return self.keys[at : self.until[at]] if at >= 0 else []

    def parents(self, at: int) -> list[Hashable]:
        """Return the keys of a row's callers."""
        return [self.keys[one] for one in self._path(at)[:-1]]
