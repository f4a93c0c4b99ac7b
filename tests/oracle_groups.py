"""Groups and filters in slow, simple code: each allocation is classified separately.

It works on a pickle's plain dicts and `tests/oracle.py`. The plumbing patterns and the rules come
from the tables in `analysis`, which are searched here frame by frame.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

from memreplay.analysis.categories.phases import PHASE_RULES
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.code.naming import cell_of
from memreplay.analysis.code.plumbing import LIBRARY, OUTERMOST, USER, file_rank, function_rank
from memreplay.analysis.selecting.selection import Filters
from tests import oracle
from tests.oracle import FrameTuple, Lifetime
from tests.oracle_before import likely
from tests.oracle_ends import buffer_lines, called_back, in_step
from tests.oracle_origins import Recorded, origins, plain_origin

BEFORE = "(allocated before the recording)"
NO_STACK = "(recorded without a stack)"
NO_EVENTS = "(no events were recorded)"
NOT_NOTED = "(holder not recorded)"
OPERATOR = r"at::_ops::(\w+)::(?:call|redispatch)\b"
NODE = r"torch::autograd::(?:generated::)?(\w+)::apply\b"
UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]


OPTIMIZERS = [rule for rule in (*DEFAULT_RULES, *PHASE_RULES) if rule.name.startswith("optimizer")]
BUFFERS = [rule for rule in DEFAULT_RULES if rule.name == "buffers"]


@cache
def matches(pattern: str, text: str) -> bool:
    """Return whether the text contains the pattern; cached, because real files have few distinct
    frames.
    """
    return re.search(pattern, text) is not None


@cache  # cached, because real files have few stacks
def met(pattern: str, where: str, frames: tuple[FrameTuple, ...]) -> bool:
    """Return whether any frame contains the pattern. If `where` is "own", check only the frame that
    the bytes are attributed to.
    """
    those = [put_down_to(frames)] if where == "own" and frames else frames
    return any(matches(pattern, f"{file}:{function}") for function, file, _ in those)


class Groups:
    """One device in a snapshot, and each allocation's group name for each key."""

    def __init__(self, snapshot: Any, device: int, rules: Sequence[Rule] = DEFAULT_RULES) -> None:
        self.snapshot = snapshot
        self.device = device
        self.rules = rules
        self.replay = oracle.replay(snapshot, device)
        self.events = oracle.trace_of(snapshot, device)
        self.recorded = Recorded(snapshot)
        self.annotations = self._annotations()

    def sums(
        self, event: int, ways: Sequence[str], filters: Filters | None = None
    ) -> dict[tuple[str, ...], tuple[int, int]]:
        """Return the (bytes, count) of each group in the live set after an event, for each key."""
        n_bytes: Counter[tuple[str, ...]] = Counter()
        count: Counter[tuple[str, ...]] = Counter()
        for one in self.replay.live_at(event):
            if filters is None or self.passes(one, filters):
                key = tuple(self.called(one, way) for way in ways)
                n_bytes[key] += one.size
                count[key] += 1
        return {key: (n_bytes[key], count[key]) for key in count}

    def passes(self, one: Lifetime, filters: Filters) -> bool:
        texts = [f"{file}:{function}" for function, file, _ in one.frames]

        def met(patterns: Sequence[str]) -> bool:
            return any(matches(pattern, text) for pattern in patterns for text in texts)

        if filters.include and not met(filters.include):
            return False
        if met(filters.exclude) or one.size < filters.min_bytes:
            return False
        if filters.only_live_at_end and one.free_index is not None:
            return False
        if filters.no_carried_over and one.alloc_index < 0:
            return False
        return not filters.only_carried_over or one.alloc_index < 0

    def called(self, one: Lifetime, way: str) -> str:
        if way in ("compile_context", "user_metadata"):
            return self.carried(one, way) or f"(no {way})"
        if way == "annotation":
            return self.annotated(one) or "(outside of annotations)"
        if way == "stream":
            return self.stream(one)
        if way == "size":
            return self.size_class(one.size)
        if way == "holder":  # tests/unit/analysis/groups/test_holding.py has files with notes
            return NOT_NOTED
        if way == "category":
            return self.category(one)
        if way == "phase":
            return self.phase(one)
        if not one.frames:
            if one.alloc_index >= 0:
                return NO_STACK
            if self.recorded.any_events:
                return BEFORE
            return NO_STACK if self.recorded.stacks_at_end else NO_EVENTS
        if way == "module":
            return self.modules(one)
        own = put_down_to(one.frames)
        function, file, _ = own
        names = {
            "stack": stack_name(one.frames) + "".join(map(repr, one.frames)),
            "innermost": frame_name(one.frames[0]),
            "line": frame_name(own),
            "function": function or "(no function)",
            "file": file or "(no file)",
            "directory": file[: file.rfind("/")].rstrip("/") or file[: file.rfind("/") + 1]
            if "/" in file
            else "(no directory)",
        }
        return names[way]

    def carried(self, one: Lifetime, key: str) -> str:
        if one.alloc_index < 0:
            return ""
        found = self.events[one.alloc_index].get(key)
        return "" if found in (None, "") or (key == "compile_context" and found == "N/A") else found

    def _annotations(self) -> list[tuple[int, int, str]]:
        """Return annotations as (start, end, name), with times in microseconds, in order of start;
        a missing end is infinite.
        """
        found: list[list[Any]] = []
        if isinstance(self.snapshot, list):  # a file from before PyTorch 2.0 has only segments
            return []
        for mark in self.snapshot.get("external_annotations", []):
            if mark["device"] != self.device:
                continue
            if mark["stage"] == "START":
                found.append([mark["time_us"], None, mark["name"]])
                continue
            for one in reversed(found):
                if one[2] == mark["name"] and one[1] is None:
                    one[1] = mark["time_us"]
                    break
        found.sort(key=lambda one: one[0])
        return [(start, 1 << 62 if end is None else end, name) for start, end, name in found]

    def annotated(self, one: Lifetime) -> str:
        if one.alloc_index < 0:
            return ""
        time = self.events[one.alloc_index].get("time_us")
        if time is None:
            return ""
        within = [name for start, end, name in self.annotations if start <= time <= end]
        return within[-1] if within else ""

    def stream(self, one: Lifetime) -> str:
        stream = None
        if one.alloc_index >= 0:
            stream = self.events[one.alloc_index].get("stream", 0)
        else:
            for segment in oracle.segments_of(self.snapshot):
                start = segment["address"]
                if (
                    segment.get("device", 0) == self.device
                    and start <= one.addr < start + segment["total_size"]
                ):
                    stream = segment["stream"]
            if one.free_index is not None:
                stream = self.events[one.free_index].get("stream", 0)
        if stream is None:
            return "(stream not known)"
        return f"stream {stream}" if stream else "default stream"

    def size_class(self, n_bytes: int) -> str:
        if n_bytes < 1:
            return "0 B"
        low = 1
        while low * 2 <= n_bytes:
            low *= 2
        return f"{units(low)} to {units(low * 2)}"

    def category(self, one: Lifetime) -> str:
        """Return an allocation's category, by its stack and origin."""
        return self._category(one, self.origin(one))

    def phase(self, one: Lifetime) -> str:
        """Return an allocation's phase, guessed as categories are."""
        return self._category(one, self.origin(one), PHASE_RULES)

    def phases(self) -> list[str | None]:
        """Return the step phase after each event, which is the phase of the latest allocation that
        has one. None outside steps.
        """
        of = {"recomputation": "backward", "start": None, "data": None}
        made = {one.alloc_index: one for one in self.replay.lifetimes if one.alloc_index >= 0}
        found: list[str | None] = []
        now: str | None = None
        for i in range(len(self.events)):
            if i in made:
                name = self.phase(made[i])
                if name in ("forward", "backward", "optimizer", *of):
                    now = of.get(name, name)
            found.append(now)
        return found

    def category_by_stack(self, one: Lifetime) -> str:
        """Return an allocation's category, ignoring its origin and end."""
        return self._category(one, None, [rule for rule in self.rules if rule.ends is None])

    def origin(self, one: Lifetime) -> str | None:
        """Return an allocation's origin, if its stack doesn't show it."""
        if one.alloc_index >= 0:
            return self.origins[one.alloc_index]
        told = self.before.get((one.addr, one.free_index))
        return plain_origin(self.recorded, one) if told is None else told

    def asks_for_ends(self, rules: Sequence[Rule] | None) -> bool:
        """Return whether any of the rules matches."""
        return any(rule.ends is not None for rule in (self.rules if rules is None else rules))

    @cached_property
    def ends(self) -> dict[int, str]:
        """Return ends by event, for allocations that are freed in the step that made them."""
        return in_step(self.snapshot, self.device)

    @cached_property
    def moves_buffers(self) -> set[FrameTuple]:
        """Return the frames in which `Module._apply` moves buffers."""
        return buffer_lines(self.snapshot)

    @cached_property
    def before(self) -> dict[tuple[int, int | None], str]:
        """Return the origins of carried-over blocks without a stack, by address and end."""
        if not self.recorded.any_stacks:
            return {}
        found = likely(self.snapshot, self.device, only_python=self.recorded.only_python)
        return {(one.addr, one.free_index): name for one, name in found}

    @cached_property
    def origins(self) -> dict[int, str | None]:
        """Return origins by event, for allocations in the recording."""
        return origins(self.snapshot, self.device, self.category_by_stack)

    def _category(
        self, one: Lifetime, origin: str | None, rules: Sequence[Rule] | None = None
    ) -> str:
        for rule in self.rules if rules is None else rules:
            if rule in OPTIMIZERS and called_back(one.frames) and self.asks_for_ends(rules):
                continue
            if rule.frames is not None and not (
                met(rule.frames, rule.where, one.frames)
                or (rule in BUFFERS and self.moves_buffers.intersection(one.frames))
            ):
                continue
            asked = [
                (rule.compile_context, self.carried(one, "compile_context")),
                (rule.user_metadata, self.carried(one, "user_metadata")),
                (rule.annotation, self.annotated(one)),
                (rule.origin, origin),
                (rule.ends, self.ends.get(one.alloc_index)),
            ]
            if all(
                text and matches(pattern, text) for pattern, text in asked if pattern is not None
            ):
                return rule.name
        return "unknown"

    def modules(self, one: Lifetime) -> str:
        words: list[str] = []
        before = ""
        for function, file, line in reversed(one.frames):
            if function.split(".")[-1] == "forward" and (
                file_rank(file) <= LIBRARY
                or "/torch/nn/modules/" in file
                or "/torch/nn/parallel/" in file
            ):
                name = function[: -len(".forward")]
                base = re.split(r"[/\\]", file)[-1]  # of a file on Linux or Windows
                place = f":{line}" if file == before else f"{base}:{line}"
                words.append(name or place)
                before = "" if name else file
        return " > ".join(words) or "(in no module's forward)"


def units(n_bytes: int) -> str:
    unit = 0
    while n_bytes >= 1024:
        n_bytes //= 1024
        unit += 1
    return f"{n_bytes} {UNITS[unit]}"


def code_in(frames: Sequence[FrameTuple]) -> list[int]:
    """Return for each frame whether it's the user's or, if no frame is, a library's."""
    ranks = [file_rank(file) for _, file, _ in frames]
    return next((found for found in (_where(ranks, USER), _where(ranks, LIBRARY)) if found), [])


def _where(ranks: Sequence[int], rank: int) -> list[int]:
    return [at for at, one in enumerate(ranks) if one == rank]


def put_down_to(frames: Sequence[FrameTuple]) -> FrameTuple:
    """Return the innermost of the user's frames or, if there are none, of the libraries' frames.
    Otherwise return the most informative plumbing frame: for autograd nodes and operators, the
    outermost.
    """
    code = code_in(frames)
    if code:
        return frames[code[0]]
    ranks = [function_rank(function) for function, _, _ in frames]
    best = [frame for frame, rank in zip(frames, ranks, strict=True) if rank == min(ranks)]
    return best[-1] if min(ranks) in OUTERMOST else best[0]


@cache
def stack_name(frames: tuple[FrameTuple, ...]) -> str:
    """Return the call site and the outermost operator directly below it; for a backward pass, the
    node and its outermost operator; otherwise the frame's name.
    """
    own = put_down_to(frames)
    if code_in(frames):
        called: list[FrameTuple] = []
        for frame in frames:
            if file_rank(frame[1]) <= LIBRARY:
                break
            called.append(frame)
        return f"{place(own)} {outermost_operator(called)}".rstrip()
    name = frame_name(own)
    return f"{name} {outermost_operator(frames)}".rstrip() if re.search(NODE, own[0]) else name


def outermost_operator(frames: Sequence[FrameTuple]) -> str:
    found = [re.search(OPERATOR, function) for function, _, _ in frames]
    names = [f"aten::{one[1]}" for one in found if one]
    return names[-1] if names else ""


@cache
def frame_name(frame: FrameTuple) -> str:
    """Return the name of the frame that represents a stack."""
    if node := re.search(NODE, frame[0]):
        return f"{node[1]} (autograd)"
    if operator := re.search(OPERATOR, frame[0]):
        return f"aten::{operator[1]} (PyTorch's own)"
    return place(frame)


def place(frame: FrameTuple) -> str:
    """Return `forward model.py:3`; without argument types for C++, without a line for a library."""
    function, file, line = frame
    if "::" in function and function.removesuffix(" const").endswith(")"):
        function = function.removesuffix(" const")
        opening = len(function) - 1
        while function[opening:].count("(") < function[opening:].count(")"):
            opening -= 1
        function = function[:opening]
    if file in ("", "??"):
        return function
    cell = cell_of(file)
    if cell and (function == "<module>" or function.startswith("<cell line")):
        function = ""
    if re.search(r"\.so($|\.)", file.split("/")[-1]):
        line = 0
    where = cell or file
    return f"{function} {where}:{line}".lstrip() if line else f"{function} {where}".lstrip()
