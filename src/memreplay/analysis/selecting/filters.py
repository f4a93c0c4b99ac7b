"""Restrict a measure to the allocations that pass the filters."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from memreplay.analysis.code.operators import operator_in
from memreplay.analysis.code.patterns import compiled
from memreplay.engine.query import _groups
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.code.linear import Linear
    from memreplay.analysis.selecting.selection import Filters
    from memreplay.engine.replay._timeline import Measure
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

_INCLUDED, _EXCLUDED = 1, 2
# Text that reports add to a location and that isn't part of a frame.
_BEFORE = re.compile(r"^(?:… |via (?:[\w.-]+: )?)")
_BEHIND = re.compile(r"(?: +\((?:autograd|PyTorch's own)\)(?: +aten::\w+)?|(?<=\d) {2,}aten::\w+)$")


class Filtering:
    """Filters prepared for one snapshot.

    Frames are classified only once. `missing`: (option, pattern) of the patterns that match no
    frame.
    """

    def __init__(self, snap: Snapshot, filters: Filters) -> None:
        if filters.only_carried_over and filters.no_carried_over:
            raise UsageError(
                "--only carried-over and --only no-carried-over leave nothing: give one of them"
            )
        self.snap = snap
        self.filters = filters
        self.missing: tuple[tuple[str, str], ...] = ()
        self._ranks = bytes(snap.code.strings)
        self._frames: array[int] | None = None
        if filters.include or filters.exclude:
            self._frames, self.missing = _bits_of_frames(snap, filters)

    def check(self, other: Filtering | None = None) -> None:
        """Raise UsageError for a pattern that matches no frame in either this snapshot or the other
        one.
        """
        for option, pattern in self.missing:
            if other is None or (option, pattern) in other.missing:
                from memreplay.analysis.selecting.similar_names import (
                    similar_names,  # imported late: only for errors
                )

                near = similar_names(self.snap, clean_pattern(pattern))
                raise UsageError(f"{option} {pattern!r} matches no frame; {near}")

    def filtered(self, usage: Usage) -> Usage:
        """Apply the filters to a measure. Raises UsageError for reserved memory."""
        if usage.measure == "reserved":
            raise UsageError("filters don't apply to reserved memory; choose another --measure")
        return usage.only(self._kept)

    def _kept(self, usage: Usage, measure: Measure) -> Measure:
        filters = self.filters
        if (
            filters.min_bytes
            or filters.only_live_at_end
            or filters.only_carried_over
            or filters.no_carried_over
        ):
            measure.narrow(
                filters.min_bytes,
                filters.only_live_at_end,
                filters.only_carried_over,
                filters.no_carried_over,
            )
        if self._frames is not None:
            nothing = bytes(8 * len(self._frames))
            keys = _groups.rule_keys(
                usage.replay.native, self._frames, nothing, 0, self._ranks, self._ranks
            )
            keys.find_all()
            wanted = bytes(map(self._passes, memoryview(keys.names()).tolist()))
            keys.keep(measure, wanted)
        return measure

    def _passes(self, bits: int) -> bool:
        return not bits & _EXCLUDED and (not self.filters.include or bool(bits & _INCLUDED))


def clean_pattern(pattern: str) -> str:
    """Clean a pattern copied from a report: drop what reports add, and replace the `…` of a cut
    path with `.*`.
    """
    text = _BEHIND.sub("", _BEFORE.sub("", pattern.strip()))
    text = re.sub(r" {2,}", " ", text)
    return text.replace("…", ".*")


def searches(pattern: str) -> list[Linear]:
    """Return what to search for: the pattern as a regular expression and as literal text, because
    C++ names often aren't valid expressions.

    A line number at the end only matches whole numbers. A name that a report cut (`…`) need not be
    a valid expression.
    """
    text = clean_pattern(pattern)
    letters = ".*".join(map(re.escape, text.split(".*")))
    end = r"(?!\d)" if re.search(r":\d+$", text) else ""
    found = [compiled(letters + end, repr(pattern))]
    try:
        return [compiled(text + end, repr(pattern)), *found] if text != letters else found
    except UsageError:
        if "…" not in pattern:
            raise
    return found


def _bits_of_frames(
    snap: Snapshot, filters: Filters
) -> tuple[array[int], tuple[tuple[str, str], ...]]:
    """Return two results: for each frame, one bit per option that has a matching pattern; and the
    patterns that match no frame.

    Patterns are searched in `file:function`, `file:line`, `function file:line` and the operator's
    name.
    """
    patterns = [
        (bit, option, pattern, searches(pattern))
        for bit, option, every in (
            (_INCLUDED, "--include", filters.include),
            (_EXCLUDED, "--exclude", filters.exclude),
        )
        for pattern in every
    ]
    code = snap.code
    found = array("Q", bytes(8 * code.frames))
    hits = [False] * len(patterns)
    # Search each text without a line number only once, even if many frames contain it.
    known: dict[tuple[int, int], list[bool]] = {}
    for i in range(code.frames):
        function, file, line = code.frame(i)
        name, path = code.string(function), code.string(file)
        met = known.get((function, file))
        if met is None:
            operator = operator_in(name)
            texts = [f"{path}:{name}", f"{name} {path}"]
            texts += [f"aten::{operator}"] if operator else []
            met = [_any(one, texts) for *_, one in patterns]
            known[function, file] = met
        texts = [f"{path}:{line}", f"{name} {path}:{line}"] if line else []
        for number, (bit, _, _, one) in enumerate(patterns):
            if met[number] or _any(one, texts):
                found[i] |= bit
                hits[number] = True
    missing = tuple(
        (option, pattern)
        for hit, (_, option, pattern, _) in zip(hits, patterns, strict=True)
        if not hit
    )
    return found, missing


def _any(searched: list[Linear], texts: list[str]) -> bool:
    return any(one.search(text) for one in searched for text in texts)
