"""Describe a simulation's settings and failures."""

from __future__ import annotations

from memreplay.analysis.simulating.records import FailedRequest
from memreplay.render.document import Below, Place
from memreplay.render.units import count, size

NOT_EXACT = "~"  # printed before an estimate
DEFAULTS = "PyTorch's defaults"
SETTINGS_WIDTH = 52  # usually wide enough for two settings


def settings_text(settings: str | None) -> str:
    """Return settings as text (e.g. `expandable_segments:True`), or a name for PyTorch's defaults.
    For None, say that they're unknown.
    """
    return f"{DEFAULTS} (the file has no settings)" if settings is None else settings or DEFAULTS


def settings_lines(settings: str) -> tuple[str, Below]:
    """Wrap settings at commas into a table cell of `SETTINGS_WIDTH` and the lines below it."""
    lines, rest = [""], settings_text(settings)
    while rest:
        part, comma, rest = rest.partition(",")
        # Lists of numbers contain commas, too.
        if lines[-1] and len(lines[-1]) + len(part) >= SETTINGS_WIDTH:
            lines.append("")
        lines[-1] += part + comma
    return lines[0], tuple((Place(line), "plain") for line in lines[1:])


def failed_text(failed: FailedRequest) -> str:
    """Describe a failed request, e.g. `98.0 MiB at event 1,234`."""
    return f"{size(failed.request_bytes)} at event {count(failed.event_index)}"
