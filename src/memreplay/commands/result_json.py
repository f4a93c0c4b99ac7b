"""Serialize results as their commands do, for Python callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.record_json import render_json

if TYPE_CHECKING:
    from memreplay.snapshot.record import Record


def to_json(record: Record, *, indent: int | None = 2) -> str:
    """Return a result, or a part of one, as JSON. With `indent=None`, it's on one line.

    For a whole result, it's the command's output with --format json (docs/json.md). A baseline is
    written as by `memreplay gate --save-base`, with a line layout that ignores `indent`.
    """
    from memreplay.analysis.comparing.baseline_record import Baseline

    if isinstance(record, Baseline):
        from memreplay.gating.base_lines import render_baseline

        return render_baseline(record)
    return render_json(record, indent=indent)
