"""The gate as a Python call: check one snapshot against a budget."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from memreplay.analysis.comparing.baseline_reading import MAX_BYTES, parse_baseline
from memreplay.analysis.comparing.baseline_record import Baseline
from memreplay.analysis.comparing.budgets import Budget, BudgetOptions
from memreplay.analysis.comparing.sides import BaselineSide, SnapshotSide
from memreplay.analysis.selecting.answering import takes
from memreplay.errors import UsageError
from memreplay.gating.find import Terms, gate_file
from memreplay.gating.reporting import gate_report

if TYPE_CHECKING:
    from memreplay.analysis.comparing.sides import ComparedSide
    from memreplay.gating.result import GateReport
    from memreplay.snapshot.snapshot import Snapshot

WHERE = "the gate"


@takes(budget=BudgetOptions, terms=Terms)
def gate(
    snap: Snapshot,
    *,
    base: Snapshot | Baseline | str | os.PathLike[str] | None = None,
    budget: BudgetOptions,
    terms: Terms,
) -> GateReport:
    """Check a snapshot against a budget: `gate(snap, max_peak="38GiB", forbid_oom=True)`.

    `budget` holds limits with the same names as in a [[gate]] table (docs/gate.md); `rules` are
    category rules. Sizes are strings with a unit, or numbers of bytes; shares are strings such as
    "2%". `base` is the reference for growth: a snapshot, a result of `memreplay.baseline`, or the
    path of a baseline file. `terms`: with `allow_untrusted`, a snapshot is judged even if it
    contradicts itself; with `strict`, it also fails if the recorder's buffer overflowed. The
    report's `passed` is the answer. Raises TypeError for an unknown limit; UsageError for a
    meaningless budget, or one that names something the snapshot lacks (a device, a category, an
    annotation); OSError and SnapshotError for an unreadable base.
    """
    found = Budget(where=WHERE, **asdict(budget))
    if budget.max_spread is not None:
        raise UsageError("max_spread compares several files; use memreplay gate FILE...")
    if found.needs_base and base is None:
        raise UsageError(f"{WHERE} limits growth; give the base with base=")
    side = None if base is None else _side(base, terms)
    return gate_report((gate_file(snap, (found,), side, terms),))


def _side(base: Snapshot | Baseline | str | os.PathLike[str], terms: Terms) -> ComparedSide:
    if isinstance(base, Baseline):
        return BaselineSide(base, base.file)
    if isinstance(base, (str, os.PathLike)):
        with open(base, "rb") as file:
            return BaselineSide(parse_baseline(file.read(MAX_BYTES + 1)), os.fspath(base))
    return SnapshotSide(base, terms.selection)
