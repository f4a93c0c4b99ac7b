"""Explain the difference between two ranks of a run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.commands.diff.find import DiffOptions, diff_report
from memreplay.commands.shared.progress import quiet
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError
from memreplay.fleets.outliers import CHANGES

if TYPE_CHECKING:
    from memreplay.analysis.comparing.records import DiffRow
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.fleets.outliers import Pair
    from memreplay.snapshot.snapshot import Snapshot


def difference(base: Snapshot, new: Snapshot, selection: Selection) -> tuple[DiffRow, ...]:
    """Return the call sites that explain the difference between two ranks' peaks.

    Each snapshot was opened for one device. Raises UsageError if one of them has no memory.
    """
    of = replace(selection, by=None, filters=None, device=None, top=CHANGES)
    found = diff_report(base, new, of, DiffOptions())
    if not found.devices:
        raise UsageError("one of the two has no memory to compare")
    return found.devices[0].rows


def difference_of_files(pair: Pair, reading: Reading, selection: Selection) -> tuple[DiffRow, ...]:
    """Like `difference`, but read the files. Raises the errors of reading."""
    with ExitStack() as files:
        base, new = (
            files.enter_context(opened(file, replace(reading, device=device), quiet))
            for file, device in (
                (pair.base, pair.base_device),
                (pair.new, pair.new_device),
            )
        )
        return difference(base, new, selection)
