"""The gate as a call of Python's: a budget in words, held against one snapshot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from memreplay.analysis.comparing.baseline_reading import MAX_BYTES, parse_baseline
from memreplay.analysis.comparing.baseline_record import Baseline
from memreplay.analysis.comparing.budgets import Budget, budget_of
from memreplay.analysis.comparing.sides import BaselineSide, SnapshotSide
from memreplay.analysis.selecting.answering import as_snapshot
from memreplay.commands.gate.find import Terms, gate_file
from memreplay.commands.gate.telling import gate_report
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.comparing.records import PhaseChoice
    from memreplay.analysis.comparing.sides import ComparedSide
    from memreplay.commands.gate.result import GateReport
    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.snapshot import Snapshot

WHERE = "the gate"
_SIZES = ("max_peak", "max_growth_bytes", "max_reserved")


class Budgeted(TypedDict, total=False):
    """The limits, and what they are of, by the names that a [[gate]] table has."""

    name: str
    device: int | None
    category: str | None
    annotation: str | None
    phase: PhaseChoice | None
    measure: MeasureName
    max_peak: str | int | None
    max_growth: str | None
    max_growth_bytes: str | int | None
    max_reserved: str | int | None
    max_fragmentation: str | None
    no_leaks: bool
    no_oom: bool


def gate(
    snap: Snapshot | str | os.PathLike[str],
    *,
    base: Snapshot | Baseline | str | os.PathLike[str] | None = None,
    rules: tuple[Rule, ...] | None = None,
    allow_untrusted: bool = False,
    strict: bool = False,
    **limits: Unpack[Budgeted],
) -> GateReport:
    """Whether a snapshot is within one budget: `gate(snap, max_peak="38GiB", no_oom=True)`.

    `limits` are those of a [[gate]] table, by their names (docs/gate.md), `rules` the rules of
    categories. A size is a text with a unit, or a number of bytes; a share is a text ("2%"). `base`
    is what growth is measured against: a snapshot, what `memreplay.baseline` made of one, or the
    path of a baseline file. `allow_untrusted` judges a snapshot even if it contradicts itself,
    `strict` fails too if the recorder's buffer overflowed. The report's `passed` is the answer.
    Raises TypeError for a limit that there is not; UsageError for a budget that means nothing, or
    speaks of what the snapshot does not have (a device, a category, an annotation); OSError and
    SnapshotError for a base that cannot be read.
    """
    budget = _budget(dict(limits))
    if budget.needs_base and base is None:
        raise UsageError(f"{WHERE} limits growth: give the base with base=")
    terms = Terms(rules=rules, allow_untrusted=allow_untrusted, strict=strict)
    side = None if base is None else _side(base, terms)
    found = gate_file(as_snapshot(snap), (budget,), side, terms)
    return gate_report((found,))


def _budget(given: dict[str, object]) -> Budget:
    for name in given:
        if name not in Budgeted.__annotations__:
            raise TypeError(f"gate() got an unexpected keyword argument {name!r}")
    words = {
        name: f"{value}B" if name in _SIZES and type(value) is int else value
        for name, value in given.items()
        if value is not None
    }
    return budget_of(words, WHERE)


def _side(base: Snapshot | Baseline | str | os.PathLike[str], terms: Terms) -> ComparedSide:
    if isinstance(base, Baseline):
        return BaselineSide(base, base.file)
    if isinstance(base, (str, os.PathLike)):
        with open(base, "rb") as file:
            return BaselineSide(parse_baseline(file.read(MAX_BYTES + 1)), os.fspath(base))
    return SnapshotSide(base, terms.selection)
