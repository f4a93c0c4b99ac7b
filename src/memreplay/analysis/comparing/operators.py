"""Explain why a program needs more memory in one of two runs by the operators that only one of them
called, as cards differ in the kernels that PyTorch chooses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.code.operators import node_in, operator_in
from memreplay.analysis.code.plumbing import code_of, file_rank
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.snapshot.model import Frame
    from memreplay.snapshot.snapshot import Snapshot

WORKSPACE = "cuBLAS's workspaces"
"""The name for allocations by cuBLAS's handles, whose size depends on the card."""
_WORKSPACE = re.compile(r"\bat::cuda::(?:getCurrentCUDABlas|setWorkspace|getCUDABlasLtWorkspace)")
_MOST = 3  # maximum number of causes
_LEAST_SHARE = 0.1  # smaller parts of the difference aren't mentioned


class OperatorCause(Record, frozen=True):
    """A part of what a run needs more at its peak than another one."""

    operator: str
    """The operator or autograd node that holds the memory, such as
    `aten::_scaled_dot_product_attention_math`. The other run doesn't call it, except if it's
    cuBLAS's workspaces.
    """
    file: str
    """The program's file that holds most of it; "" if it has no frame in the program."""
    line: int
    """The line in this file."""
    bytes: int
    """Its bytes at the peak; for cuBLAS's workspaces, the difference to the other run."""
    base_operator: str
    """The operator that only the other run calls at this line; "" if there isn't one."""


class _Stack(NamedTuple):
    """The facts in a stack's frames."""

    operators: tuple[str, ...]
    """Operators and autograd nodes, each once, outermost first."""
    place: tuple[str, int]
    """The program's innermost file and line; ("", 0) if no frame is in the program."""


class _Run:
    """The stacks of one device's allocations."""

    def __init__(self, snap: Snapshot, device: int) -> None:
        usage = snap.replay(device).measure("requested")
        self.peak_bytes = usage.peak.bytes
        peak = usage.peak.event_index
        columns = usage.lifetime_columns()
        self.held: Counter[int] = Counter()
        """Bytes at the peak, by stack."""
        self.taken: Counter[int] = Counter()
        """Bytes of all allocations, by stack."""
        rows = zip(
            *(list(columns[name]) for name in ("alloc_event", "free_event", "size", "stack")),
            strict=True,
        )
        for began, ended, size, stack in rows:
            if stack < 0:
                continue
            self.taken[stack] += size
            if began <= peak and (ended < 0 or ended > peak):
                self.held[stack] += size
        self.stacks: Mapping[int, _Stack] = {i: _read(snap.stack(i)) for i in self.taken}
        self.operators = {name for one in self.stacks.values() for name in one.operators}

    def by_operator(
        self, stacks: Iterable[int], wanted: Iterable[str], counts: Mapping[int, int]
    ) -> Counter[str]:
        """Add up bytes by operator, in order from the outermost to the innermost operator."""
        found: Counter[str] = Counter()
        names = set(wanted)
        for stack in stacks:
            for name in self.stacks[stack].operators:
                if name in names:
                    found[name] += counts[stack]
        return found


def _read(frames: tuple[Frame, ...]) -> _Stack:
    user, _ = code_of([file_rank(frame.file) for frame in frames])
    place = (frames[user[0]].file, frames[user[0]].line) if user else ("", 0)
    return _Stack(tuple(dict.fromkeys(_names(frames))), place)


def _names(frames: tuple[Frame, ...]) -> Iterator[str]:
    if any(_WORKSPACE.search(frame.function) for frame in frames):
        yield WORKSPACE
        return
    for frame in reversed(frames):
        if operator := operator_in(frame.function):
            yield f"aten::{operator}"
        elif node := node_in(frame.function):
            yield f"{node} (autograd)"


def causes(base: Snapshot, new: Snapshot, device: int) -> tuple[OperatorCause, ...]:
    """Return why `new` needs more memory at its peak than `base`, largest part first.

    Each part is held by an operator that only `new` calls. Empty if no such operator holds a tenth
    of the difference, or if the snapshots have no C++ frames.
    """
    before, after = _Run(base, device), _Run(new, device)
    least = _LEAST_SHARE * (after.peak_bytes - before.peak_bytes)
    if least <= 0:
        return ()
    found: list[OperatorCause] = []
    left = dict(after.held)
    only = after.operators - before.operators
    while len(found) < _MOST:
        held = after.by_operator(left, only, left)
        if not held:
            break
        operator, n_bytes = held.most_common(1)[0]
        if n_bytes < least:
            break
        its = [stack for stack in left if operator in after.stacks[stack].operators]
        place = _place(after, its, left)
        found.append(OperatorCause(operator, *place, n_bytes, _instead(before, after, place)))
        for stack in its:
            del left[stack]
    found += _workspaces(before, after, least)
    return tuple(sorted(found, key=lambda one: -one.bytes)[:_MOST])


def _place(run: _Run, stacks: Iterable[int], held: Mapping[int, int]) -> tuple[str, int]:
    places: Counter[tuple[str, int]] = Counter()
    for stack in stacks:
        places[run.stacks[stack].place] += held[stack]
    return places.most_common(1)[0][0]


def _instead(base: _Run, new: _Run, place: tuple[str, int]) -> str:
    """Return the operator that allocates most at this line and that only `base` calls."""
    if place == ("", 0):
        return ""
    there = [stack for stack, one in base.stacks.items() if one.place == place]
    found = base.by_operator(there, base.operators - new.operators - {WORKSPACE}, base.taken)
    return found.most_common(1)[0][0] if found else ""


def _workspaces(base: _Run, new: _Run, least: float) -> list[OperatorCause]:
    held = [run.by_operator(run.held, {WORKSPACE}, run.held)[WORKSPACE] for run in (base, new)]
    more = held[1] - held[0]
    return [OperatorCause(WORKSPACE, "", 0, more, "")] if more >= least and held[0] else []
