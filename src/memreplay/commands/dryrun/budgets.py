"""Check a dry run's processes against limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memreplay.gating.find import gate_file
from memreplay.gating.reporting import gate_report
from memreplay.render.units import size

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.commands.dryrun.result import DryDevice
    from memreplay.gating.result import GatedFile
    from memreplay.snapshot.snapshot import Snapshot


class Judge:
    """Checks processes against a budget, and keeps the results."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.gated: list[GatedFile] = []
        self.counted: list[tuple[bool, str]] = []

    def judge(self, snap: Snapshot, devices: Sequence[DryDevice]) -> None:
        """Check a process's recording against the budget.

        If PyTorch's counters show that the recording is incomplete (only the last events, or only a
        part of the run), check the counters instead.
        """
        if all(one.recorded_peak_bytes >= one.requested_peak_bytes for one in devices):
            self.gated.append(gate_file(snap, (self.budget,)))
            return
        for one in devices:
            self.counted += self._by_counters(one)

    def _by_counters(self, device: DryDevice) -> list[tuple[bool, str]]:
        """Check the counters. Held bytes aren't counted, but requested bytes are an upper bound for
        them.
        """
        found = []
        for words, limit, actual in (
            ("requested", self.budget.max_peak, device.requested_peak_bytes),
            ("reserved", self.budget.max_reserved, device.reserved_peak_bytes),
        ):
            if limit is not None:
                kept = actual <= limit
                sign = "<=" if kept else ">"
                line = f"{'PASS' if kept else 'FAIL'} peak {words} {size(actual)} {sign}"
                line += f" {size(limit)} (by the allocator's counters: not all was recorded)"
                found.append((kept, line))
        return found

    @property
    def broken(self) -> bool:
        """Whether any process exceeds a limit."""
        return not all(one.passed for one in self.gated) or not all(
            kept for kept, _ in self.counted
        )

    @property
    def headline(self) -> str | None:
        """The summary line, with exceeded limits first."""
        over = [line for kept, line in self.counted if not kept]
        if over:
            return over[0] if len(over) == 1 else f"{over[0]}; {len(over) - 1} more failed"
        if not self.gated:
            return self.counted[0][1] if self.counted else None
        judged = gate_report(self.gated)
        return judged.headline if not judged.passed or not self.counted else self.counted[0][1]
