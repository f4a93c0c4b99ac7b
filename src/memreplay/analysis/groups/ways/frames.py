"""A snapshot's stacks without some kinds of frames, for comparison with a recording that lacks
these kinds.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from memreplay.analysis.categories.origins import BEFORE, NO_PYTHON, ORIGINS
from memreplay.analysis.code.native import ignored_frames
from memreplay.analysis.code.plumbing import LIBRARY, OUTERMOST
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from memreplay.analysis.code.native import FramesKept
    from memreplay.analysis.groups.ways.base import Met
    from memreplay.engine.query._groups import Keys
    from memreplay.engine.read.column import Column
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

_EVERY = (1 << 64) - 1
_LAST = 255  # rank of frames that are only used if there are no other frames


def _met(keys: Keys, names: array[int]) -> Keys:
    """Rename the groups, and look up all new names immediately."""
    found = _groups.renamed(keys, names)
    found.find_all()
    return found


class FewerFrames:
    """A snapshot's stacks without C++ frames, or without any frames."""

    def __init__(self, snap: Snapshot, kept: FramesKept) -> None:
        self.code = snap.code
        self.none = kept == "none"
        self.left_out = ignored_frames(snap.code, kept)

    def stack(self, stack: int) -> tuple[int, ...]:
        """Return a stack's remaining frames, innermost first."""
        return tuple(frame for frame in self.code.stack(stack) if not self.left_out[frame])

    def marks(self, marks: bytes) -> bytes:
        """Set the marks of dropped frames to zero. `marks` has a byte per frame."""
        return bytes(0 if out else mark for mark, out in zip(marks, self.left_out, strict=True))

    def function_ranks(self, ranks: bytes) -> bytes:
        """Adjust function ranks so that stacks aren't attributed to dropped frames."""
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
        """Group by the remaining frames of stacks, with names like those of
        `_groups.stack_keys`.
        """
        keys = _groups.stack_keys(replay.native, "stack", file_rank, function_rank)
        keys.find_all()
        stacks = [(name, False) for name in memoryview(keys.names()).tolist()]
        if any(self.bare_carried(replay)):
            # Keep carried-over blocks apart from events with the same stack.
            keys = _groups.pair(keys, _groups.row_keys(replay.native, 0, 1))
            keys.find_all()
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
        """Group by module. Stacks without remaining frames aren't in any module."""
        both = _groups.pair(modules, self.keys(replay, "stack", *ranks))
        both.find_all()
        first, second = (memoryview(one.names()).tolist() for one in both.of)
        stackless = (_groups.NO_STACK, _groups.CARRIED)
        names = array("Q")
        for name in memoryview(both.names()).tolist():
            path, stack = first[name >> 32], second[name & 0xFFFFFFFF]
            names.append(stack if stack in stackless else path)
        return _met(both, names)

    def bare_carried(self, replay: Replay) -> list[bool]:
        """Return for each carried-over block whether it had a stack that lost all frames."""
        bare = {0: False}
        for stack in (stacks := replay.carried("stack").tolist()):
            if stack not in bare:
                bare[stack] = not self.stack(stack)
        return [bare[stack] for stack in stacks]

    def of_carried(self, replay: Replay, likely: Column | None) -> Buffer | None:
        """Return the origins of carried-over blocks, including blocks whose stacks lost all
        frames.
        """
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
        met: Met,
        ranks: tuple[bytes, bytes],
        masks: Sequence[int] | None,
    ) -> Keys:
        """Group by the rules that remaining frames match, like `_groups.rule_keys`."""
        keys = self.keys(replay, "stack", *ranks)
        keys.find_all()
        some, stackless, before = masks if masks is not None else (_EVERY, _EVERY, _EVERY)
        sets = array("Q")
        for name in memoryview(keys.names()).tolist():
            bits = met.always
            if name == _groups.NO_STACK:
                bits &= stackless
            elif name == _groups.CARRIED:
                bits &= before
            else:
                ids = self.stack(name)
                for frame in ids:
                    bits |= met.anywhere[frame]
                bits = (bits | met.own[self.label_frame(ids, *ranks)]) & some
            sets.append(bits)
        return _met(keys, sets)

    def origin_keys(self, replay: Replay, origins: Keys, ranks: tuple[bytes, bytes]) -> Keys:
        """Group by origin. An allocation whose stack lost all frames counts as made by a thread
        without Python.
        """
        both = _groups.pair(origins, self.keys(replay, "stack", *ranks))
        both.find_all()
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
        """Return the frame that a stack of these frames is attributed to, like
        engine/replay/label.pyx.
        """

        def rank(frame: int) -> int:
            function, file, _ = self.code.frame(frame)
            return file_rank[file] if file_rank[file] <= LIBRARY else function_rank[function]

        of_ids = [rank(one) for one in ids]
        best = min(of_ids)
        outermost = best in OUTERMOST
        return [one for one, of in zip(ids, of_ids, strict=True) if of == best][-outermost]
