"""The stacks of a snapshot without some of their frames: as another recording would have them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from memreplay.analysis.categories.origins import BEFORE, NO_PYTHON, ORIGINS
from memreplay.analysis.code.native import frames_left_out
from memreplay.analysis.code.plumbing import LIBRARY, OUTERMOST
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from memreplay.analysis.code.native import FramesKept
    from memreplay.engine.query._groups import Keys
    from memreplay.engine.read.column import Column
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_EVERY = (1 << 64) - 1
_LAST = 255  # the rank of what a stack is put down to if it has nothing else


def _met(keys: Keys, names: array[int]) -> Keys:
    """The groups under other names, all of which are there at once, to be named again."""
    found = _groups.renamed(keys, names)
    found.meet()
    return found


class FewerFrames:
    """The stacks of a snapshot without its frames of C++, or without any."""

    def __init__(self, snap: Snapshot, kept: FramesKept) -> None:
        self.code = snap.code
        self.none = kept == "none"
        self.left_out = frames_left_out(snap.code, kept)

    def stack(self, stack: int) -> tuple[int, ...]:
        """The frames of a stack that are left, innermost first."""
        return tuple(frame for frame in self.code.stack(stack) if not self.left_out[frame])

    def marks(self, marks: bytes) -> bytes:
        """A byte of each frame, 0 of those that are left out."""
        return bytes(0 if out else mark for mark, out in zip(marks, self.left_out, strict=True))

    def function_ranks(self, ranks: bytes) -> bytes:
        """Ranks of functions such that a stack is put down to another frame if it has any."""
        found = bytearray(ranks)
        kept = set()
        for i in range(self.code.frames):
            function, _, _ = self.code.frame(i)
            if self.left_out[i]:
                found[function] = _LAST
            else:
                kept.add(function)
        for function in kept:
            found[function] = ranks[function]
        return bytes(found)

    def keys(self, replay: Replay, kind: str, file_rank: bytes, function_rank: bytes) -> Keys:
        """Groups by what is left of the stacks: names are as those of `_groups.stack_keys`."""
        keys = _groups.stack_keys(replay.native, "stack", file_rank, function_rank)
        keys.meet()
        stacks = [(name, False) for name in memoryview(keys.names()).tolist()]
        if any(self.bare_carried(replay)):
            # What was there before is told from the events that have the same stack.
            keys = _groups.pair(keys, _groups.row_keys(replay.native, 0, 1))
            keys.meet()
            carried = memoryview(keys.of[1].names()).tolist()
            stacks = [
                (stacks[name >> 32][0], bool(carried[name & 0xFFFFFFFF]))
                for name in memoryview(keys.names()).tolist()
            ]
        first: dict[tuple[int, ...], int] = {}
        names = array("Q")
        for name, is_carried in stacks:
            if name in (_groups.CARRIED, _groups.NO_STACK):
                names.append(name)
                continue
            ids = self.stack(name)
            if not ids:
                names.append(_groups.CARRIED if is_carried else _groups.NO_STACK)
            elif kind == "stack":
                names.append(first.setdefault(ids, name))
            elif kind == "innermost":
                names.append(ids[0])
            else:
                frame = self.label_frame(ids, file_rank, function_rank)
                function, file, _ = self.code.frame(frame)
                names.append({"line": frame, "file": file, "function": function}[kind])
        return _met(keys, names)

    def module_keys(self, replay: Replay, modules: Keys, ranks: tuple[bytes, bytes]) -> Keys:
        """Groups by module: what has no frame left is in none of them."""
        both = _groups.pair(modules, self.keys(replay, "stack", *ranks))
        both.meet()
        first, second = (memoryview(one.names()).tolist() for one in both.of)
        stackless = (_groups.NO_STACK, _groups.CARRIED)
        names = array("Q")
        for name in memoryview(both.names()).tolist():
            path, stack = first[name >> 32], second[name & 0xFFFFFFFF]
            names.append(stack if stack in stackless else path)
        return _met(both, names)

    def bare_carried(self, replay: Replay) -> list[bool]:
        """Of each carried block whether it had a stack, of which nothing is left."""
        bare = {0: False}
        for stack in (stacks := replay.carried("stack").tolist()):
            if stack not in bare:
                bare[stack] = not self.stack(stack)
        return [bare[stack] for stack in stacks]

    def of_carried(self, replay: Replay, likely: Column | None) -> Buffer | None:
        """The origins of carried blocks, with those that have no stack any more."""
        if likely is None:
            return None
        bare = self.bare_carried(replay)
        before = ORIGINS.index(BEFORE)
        return array(
            "I",
            [
                before if none and not origin else origin
                for origin, none in zip(memoryview(likely).tolist(), bare, strict=True)
            ],
        )

    def rule_keys(
        self,
        replay: Replay,
        anywhere: Sequence[int],
        own: Sequence[int],
        always: int,
        ranks: tuple[bytes, bytes],
        masks: Sequence[int] | None,
    ) -> Keys:
        """Groups by the rules that what is left meets: as `_groups.rule_keys` has them."""
        keys = self.keys(replay, "stack", *ranks)
        keys.meet()
        some, stackless, before = masks if masks is not None else (_EVERY, _EVERY, _EVERY)
        sets = array("Q")
        for name in memoryview(keys.names()).tolist():
            met = always
            if name == _groups.NO_STACK:
                met &= stackless
            elif name == _groups.CARRIED:
                met &= before
            else:
                ids = self.stack(name)
                for frame in ids:
                    met |= anywhere[frame]
                met = (met | own[self.label_frame(ids, *ranks)]) & some
            sets.append(met)
        return _met(keys, sets)

    def origin_keys(self, replay: Replay, origins: Keys, ranks: tuple[bytes, bytes]) -> Keys:
        """Groups by origin, where what has no frame left is of a thread without Python."""
        both = _groups.pair(origins, self.keys(replay, "stack", *ranks))
        both.meet()
        origin_of = {_groups.CARRIED: BEFORE}
        if not self.none:
            origin_of[_groups.NO_STACK] = NO_PYTHON
        first, second = (memoryview(one.names()).tolist() for one in both.of)
        names = array("Q")
        for name in memoryview(both.names()).tolist():
            origin, stack = first[name >> 32], second[name & 0xFFFFFFFF]
            bare = origin_of.get(stack)
            told = bare is not None and ORIGINS[origin] is None
            names.append(ORIGINS.index(bare) if told else origin)
        return _met(both, names)

    def label_frame(self, ids: Sequence[int], file_rank: bytes, function_rank: bytes) -> int:
        """The frame that these are put down to: as engine/replay/label.pyx does."""

        def rank(frame: int) -> int:
            function, file, _ = self.code.frame(frame)
            return file_rank[file] if file_rank[file] <= LIBRARY else function_rank[function]

        of_ids = [rank(one) for one in ids]
        best = min(of_ids)
        outermost = best in OUTERMOST
        return [one for one, of in zip(ids, of_ids, strict=True) if of == best][-outermost]
