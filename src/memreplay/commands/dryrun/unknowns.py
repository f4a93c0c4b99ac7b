"""Collect the unknowns that a dry run's numbers depend on: values, workspace sizes, functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memreplay.commands.dryrun.result import Unknown, ValueRead

if TYPE_CHECKING:
    from memreplay.dryrun.launch import Ended

# Functions that may return a size. Excludes those that compute, set, launch or profile.
_MAY_SAY = re.compile(
    r"^(?!cupti|nvtx|__cudaGetKernel)(?:.*[Ss]ize|.*Query|.*Get(?!Error|Version))"
)


def reads_of(ended: Ended) -> tuple[ValueRead, ...]:
    """Return the values that were read. Values used as sizes come first."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for process in ended.processes:
        for one in process.facts.get("reads", ()):
            names = "operator", "file", "line", "function", "through"
            kind = one["sizes"], one["sampled"], one["assumed"], one["chosen"]
            counts[tuple(one[name] for name in names) + kind] += one["count"]
    found = [
        ValueRead(operator, file, line, function, through, count, *kind)
        for (operator, file, line, function, through, *kind), count in counts.items()
    ]
    return tuple(sorted(found, key=lambda o: (not o.makes_sizes, -o.count, o.file, o.line)))


def workspaces_of(ended: Ended) -> tuple[Unknown, ...]:
    """Return the libraries that were asked for a workspace size."""
    counts: Counter[str] = Counter()
    for process in ended.processes:
        counts.update(process.facts.get("workspaces", {}))
    return tuple(Unknown(name, n) for name, n in sorted(counts.items()) if n)


def unanswered_of(ended: Ended) -> tuple[Unknown, ...]:
    """Return the functions that may return a size but that a dry run doesn't implement."""
    counts: Counter[str] = Counter()
    for process in ended.processes:
        calls: Mapping[str, Any] = process.facts.get("unanswered", {})
        for number, n in calls.items():
            name = ended.unanswered[int(number)]
            if _MAY_SAY.search(name):
                counts[name] += n
    return tuple(Unknown(name, n) for name, n in sorted(counts.items()))
