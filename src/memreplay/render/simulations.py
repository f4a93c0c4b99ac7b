"""Says in words what was simulated, and what failed."""

from __future__ import annotations

from memreplay.analysis.simulating.records import FailedRequest
from memreplay.render.document import Below, Place
from memreplay.render.units import count, size

NOT_EXACT = "~"  # before what is an estimate
DEFAULTS = "PyTorch's defaults"
SETTINGS_WIDTH = 52  # cells in which two settings have room, in most cases


def settings_words(settings: str | None) -> str:
    """`expandable_segments:True`; PyTorch's own settings have a name instead. None: the file does
    not say."""
    return f"{DEFAULTS}, as the file names none" if settings is None else settings or DEFAULTS


def settings_lines(settings: str) -> tuple[str, Below]:
    """The same in lines of `SETTINGS_WIDTH`, as a table's cell and what is below it: broken behind
    commas, so that all of it is shown."""
    lines, rest = [""], settings_words(settings)
    while rest:
        part, comma, rest = rest.partition(",")
        # In a list of numbers there are commas, too.
        if lines[-1] and len(lines[-1]) + len(part) >= SETTINGS_WIDTH:
            lines.append("")
        lines[-1] += part + comma
    return lines[0], tuple((Place(line), "plain") for line in lines[1:])


def failed_words(failed: FailedRequest) -> str:
    """`98.0 MiB at event 1,234`."""
    return f"{size(failed.request_bytes)} at event {count(failed.event_index)}"
