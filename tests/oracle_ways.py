"""Find each allocation's group name by each key, with slow, simple code.

It goes through the file's events in plain Python, one allocation after another. The frame that a
stack is attributed to depends on frame ranks, which tests/unit/analysis/code/test_plumbing.py
checks. A block's pool and stream come from replay classes, which tests/property/test_measures.py
checks.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from typing import Any

import memreplay as mr
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.categories.phases import PHASE_RULES
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.code.plumbing import OUTERMOST, ranks
from memreplay.analysis.groups.ways.base import BEFORE_RECORDING, NO_EVENTS, NO_STACK
from memreplay.analysis.groups.ways.blocks import NOT_NOTED, pool_label, stream_label
from memreplay.analysis.groups.ways.texts import OUTSIDE
from memreplay.snapshot.replay import Usage
from tests import oracle
from tests.oracle_before import likely
from tests.oracle_ends import called_back, in_step
from tests.oracle_origins import Recorded, plain_origin

MODULES = re.compile(r"/torch/nn/(?:modules|parallel|quantized|qat|quantizable)/")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Named:
    """A device's allocations: labels by alloc event or carried-over block."""

    def __init__(
        self, snapshot: Any, snap: mr.Snapshot, usage: Usage, rules: Sequence[Rule] = DEFAULT_RULES
    ) -> None:
        self.snapshot = snapshot
        self.recorded = Recorded(snapshot)
        self.before = self._before(usage)
        self.snap = snap
        self.usage = usage
        self.rules = rules
        self.events = oracle.trace_of(snapshot, usage.replay.device)
        self.ends = in_step(snapshot, usage.replay.device)
        self.spans = spans(snap, usage.replay)
        self.file_rank, self.function_rank = ranks(snap.code)
        self.strings = {snap.text(i): i for i in range(snap.native.n_strings)}

    def label(self, by: str, row: int, *, carried: bool = False) -> str:
        """Return an allocation's label by one key, or by several, joined by commas."""
        return ", ".join(self._label(way, row, carried) for way in by.split(","))

    def _label(self, way: str, row: int, carried: bool) -> str:
        if way == "size":
            return _size(self._bytes(row, carried))
        if way == "holder":  # tests/unit/analysis/groups/test_holding.py has files with notes
            return NOT_NOTED
        if way in ("pool", "stream"):
            return self._class(way, row, carried)
        if way == "annotation":
            return self._annotation(row, carried) or OUTSIDE
        if way in ("compile_context", "user_metadata"):
            return self._carried(way, row, carried) or f"(no {way})"
        frames = self._frames(row, carried)
        if way == "category":
            return self._category(frames, row, carried, self.rules)
        if way == "phase":
            return self._category(frames, row, carried, PHASE_RULES)
        if not frames:
            if carried:
                return BEFORE_RECORDING if self.snap.has_events else NO_EVENTS
            return NO_STACK
        if way == "module":
            return _module([one for one in frames if self._users(one) or MODULES.search(one[1])])
        if way == "innermost":
            return _frame(frames[0])
        function, file, _ = own = self._own(frames)
        return {
            "stack": _frame(own),
            "line": _frame(own),
            "function": function or "(no function)",
            "file": file or "(no file)",
            "directory": posixpath.dirname(file) or "(no directory)",
        }[way]

    def _frames(self, row: int, carried: bool) -> oracle.Stack:
        if not carried:
            return oracle.stack_of(self.events[row])
        stack = memoryview(self.usage.replay.native.carried("stack"))[row]
        return tuple((f.function, f.file, f.line) for f in self.snap.stack(stack))

    def _users(self, frame: oracle.FrameTuple) -> bool:
        return self.file_rank[self.strings[frame[1]]] == 0

    def _own(self, frames: oracle.Stack) -> oracle.FrameTuple:
        """Return the frame that a stack is attributed to: the innermost frame of the lowest rank
        or, for autograd nodes and operators, the outermost.
        """
        ranks = [
            rank if rank <= 1 else self.function_rank[self.strings[one[0]]]
            for one in frames
            for rank in [self.file_rank[self.strings[one[1]]]]
        ]
        best = [one for one, rank in zip(frames, ranks, strict=True) if rank == min(ranks)]
        return best[-1] if min(ranks) in OUTERMOST else best[0]

    def _bytes(self, row: int, carried: bool) -> int:
        native = self.usage.native
        found: int = memoryview(native.carried_weights() if carried else native.weights())[row]
        return found

    def _class(self, way: str, row: int, carried: bool) -> str:
        replay = self.usage.replay
        classes = replay.classes(way)
        column = classes.of_carried() if carried else classes.of_events()
        key = classes.keys()[memoryview(column)[row]]
        return stream_label(key) if way == "stream" else pool_label(replay.pool_of(key))

    def _annotation(self, row: int, carried: bool) -> str | None:
        """Return the open annotation that started last."""
        last = None
        for span in self.spans:
            ended = span.end_event is not None and row > span.end_event
            if not carried and span.start_event < row and not ended:
                last = span.name
        return last

    def _carried(self, way: str, row: int, carried: bool) -> str | None:
        found: Any = None if carried else self.events[row].get(way)
        if isinstance(found, dict):
            found = json.dumps(found)
        return None if found in ("", None) or (way, found) == ("compile_context", "N/A") else found

    def _before(self, usage: Usage) -> list[str]:
        """Return the origins of carried-over blocks without a stack, in row order."""
        if not self.recorded.any_stacks:
            return []
        device, only_python = usage.replay.device, self.recorded.only_python
        return [name for _, name in likely(self.snapshot, device, only_python=only_python)]

    def _origin(self, frames: oracle.Stack, row: int, carried: bool) -> str | None:
        if carried and not frames and self.before:
            return self.before[sum(not self._frames(i, True) for i in range(row))]
        one = oracle.Lifetime(-1 if carried else 0, None, 0, 0, frames)
        return plain_origin(self.recorded, one)

    def _category(
        self, frames: oracle.Stack, row: int, carried: bool, rules: Sequence[Rule]
    ) -> str:
        """Return the category of the first rule that matches completely."""
        own = (self._own(frames),) if frames else ()
        texts = {
            "annotation": self._annotation(row, carried),
            "compile_context": self._carried("compile_context", row, carried),
            "user_metadata": self._carried("user_metadata", row, carried),
            "origin": self._origin(frames, row, carried),
            "ends": None if carried else self.ends.get(row),
        }
        asks = any(rule.ends is not None for rule in rules)
        for rule in rules:
            if asks and rule.name.startswith("optimizer") and called_back(frames):
                continue
            asked = own if rule.where == "own" else frames
            holds = rule.frames is None or any(
                re.search(rule.frames, f"{file}:{function}") for function, file, _ in asked
            )
            for key, text in texts.items():
                pattern = getattr(rule, key)
                if pattern is not None:
                    holds = holds and text is not None and bool(re.search(pattern, text))
            if holds:
                return rule.name
        return "unknown"


def _frame(frame: oracle.FrameTuple) -> str:
    function, file, line = frame
    if not line and file in ("", "??"):
        return function
    return f"{function} {file}:{line}" if line else f"{function} {file}"


def _module(frames: Sequence[oracle.FrameTuple]) -> str:
    """Return the user's forward functions, outermost first."""
    words: list[str] = []
    before = None  # the file precedes its line in such a name
    for function, file, line in reversed(frames):
        if function.endswith(".forward"):
            words.append(function.removesuffix(".forward"))
            before = None
        elif function == "forward":
            name = re.split(r"[/\\]", file)[-1]  # of a file on Linux or Windows
            words.append(f":{line}" if line and file == before else f"{name}:{line}")
            before = file if line else None
    return " > ".join(words) or "(in no module's forward)"


def _size(n_bytes: int) -> str:
    if n_bytes < 1:
        return "0 B"
    low, power = 1, 0
    while low * 2 <= n_bytes:
        low, power = low * 2, power + 1
    ends = ((low, power), (low * 2, power + 1))
    return " to ".join(f"{end >> at // 10 * 10} {UNITS[at // 10]}" for end, at in ends)
