"""Any result as the JSON that its command writes, for callers in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.record_json import render_json

if TYPE_CHECKING:
    from memreplay.snapshot.record import Record


def to_json(record: Record, *, indent: int | None = 2) -> str:
    """`record`, a result or a part of one, as JSON; with `indent=None` on a single line.

    Of a whole result it is what the command writes for --format json (docs/json.md). A baseline is
    the file that `memreplay gate --save-base` writes, which has lines of its own whatever `indent`
    is.
    """
    from memreplay.analysis.comparing.baseline_record import Baseline

    if isinstance(record, Baseline):
        from memreplay.gating.base_lines import render_baseline

        return render_baseline(record)
    return render_json(record, indent=indent)
