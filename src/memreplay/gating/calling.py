"""The gate as a call of Python's: a budget in words, held against one snapshot."""

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
from memreplay.gating.telling import gate_report

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
    """Whether a snapshot is within one budget: `gate(snap, max_peak="38GiB", no_oom=True)`.

    `budget` has limits, by the names of a [[gate]] table (docs/gate.md), `rules` are the rules of
    categories. A size is a text with a unit, or a number of bytes; a share is a text ("2%"). `base`
    is what growth is measured against: a snapshot, what `memreplay.baseline` made of one, or the
    path of a baseline file. `terms` say how strictly: `allow_untrusted` judges a snapshot even if
    it contradicts itself, `strict` fails too if the recorder's buffer overflowed. The report's
    `passed` is the answer.
    Raises TypeError for a limit that there is not; UsageError for a budget that means nothing, or
    speaks of what the snapshot does not have (a device, a category, an annotation); OSError and
    SnapshotError for a base that cannot be read.
    """
    found = Budget(where=WHERE, **asdict(budget))
    if budget.max_spread is not None:
        raise UsageError("max_spread compares several files: use memreplay gate FILE...")
    if found.needs_base and base is None:
        raise UsageError(f"{WHERE} limits growth: give the base with base=")
    side = None if base is None else _side(base, terms)
    return gate_report((gate_file(snap, (found,), side, terms),))


def _side(base: Snapshot | Baseline | str | os.PathLike[str], terms: Terms) -> ComparedSide:
    if isinstance(base, Baseline):
        return BaselineSide(base, base.file)
    if isinstance(base, (str, os.PathLike)):
        with open(base, "rb") as file:
            return BaselineSide(parse_baseline(file.read(MAX_BYTES + 1)), os.fspath(base))
    return SnapshotSide(base, terms.selection)
