"""Says in words what was simulated, and what failed."""

from __future__ import annotations

from memreplay.analysis.simulating.records import FailedRequest
from memreplay.render.units import count, size

DEFAULTS = "PyTorch's defaults"


def settings_words(settings: str) -> str:
    """`expandable_segments:True`; PyTorch's own settings have a name instead."""
    return settings or DEFAULTS


def failed_words(failed: FailedRequest) -> str:
    """`98.0 MiB at event 1,234`."""
    return f"{size(failed.request_bytes)} at event {count(failed.event_index)}"
