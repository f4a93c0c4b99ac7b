"""A worker's tasks: read a rank, or compare two. The only error that they raise is MemoryError."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from memreplay.commands.shared.errors import attempt_unreported
from memreplay.commands.shared.progress import quiet
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import SnapshotError
from memreplay.fleets.result import FleetRank, RankStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.dataset import Part
    from memreplay.fleets.outliers import Explained, Pair

T = TypeVar("T")

SHORT = "needs more memory than a worker may use; read a part with --from and --to"


class RankTask(Struct, frozen=True):
    """One rank's file, the cards to check it against, and what to write."""

    file: str
    reading: Reading
    selection: Selection
    totals: tuple[int, ...] = ()
    part: Part | None = None


class PairTask(Struct, frozen=True):
    """Two ranks to compare."""

    pair: Pair
    reading: Reading
    selection: Selection


def read_rank(task: RankTask) -> FleetRank:
    """Summarize a file, or say why it can't be summarized."""

    def work() -> FleetRank:
        from memreplay.fleets.row import rank_row

        before = _written(task.file)
        try:
            with opened(task.file, task.reading, quiet) as snapshot:
                row = rank_row(snapshot, task.selection, task.totals)
                _check_unwritten(task.file, before)
                if task.part is not None:
                    from memreplay.commands.fleet.dataset import write_rank

                    write_rank(snapshot, task.part, row, task.selection)
                return row
        except SnapshotError:
            # Raises if the file was written meanwhile, which explains the error.
            _check_unwritten(task.file, before)
            raise

    found, words = _attempted(work)
    return found or unread(task.file, "unreadable", words)


def _attempted(work: Callable[[], T]) -> tuple[T | None, str]:
    """Return the work's result, or None and the error.

    MemoryError is raised, because it may be due to what the process did before, which only the
    caller knows.
    """
    is_short = False

    def watched() -> T:
        nonlocal is_short
        try:
            return work()
        except OSError as error:
            is_short = error.errno == errno.ENOMEM
            raise
        except MemoryError:
            is_short = True
            raise

    found, _, words = attempt_unreported(watched)
    if is_short:
        raise MemoryError(SHORT)
    return found, words


def _written(file: str) -> tuple[int, ...] | None:
    """Return a value that changes when a local file is written. URLs are checked by their
    reader.
    """
    if not os.path.isfile(file):
        return None
    try:
        # Open the file to get current metadata, which a network file system may cache for an hour.
        with open(file, "rb") as there:
            status = os.fstat(there.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _check_unwritten(file: str, before: tuple[int, ...] | None) -> None:
    """Raise SnapshotError if a file was written while it was being read, because the result may mix
    both versions. If the file was replaced, the old version was read, which is fine.
    """
    now = _written(file)
    if before is not None and now is not None and now != before and now[:2] == before[:2]:
        raise SnapshotError("the file changed while it was being read; run again")


def unread(file: str, status: RankStatus, words: str) -> FleetRank:
    """Return the row for an unreadable file."""
    return FleetRank(
        rank=None,
        file=file,
        status=status,
        error=words,
        truncated=False,
        host=None,
        devices=(),
    )


def compare(task: PairTask) -> Explained:
    """Return the call sites that explain the difference between two ranks, or why they're
    unknown.
    """
    from memreplay.fleets.outliers import Explained

    def work() -> Explained:
        from memreplay.commands.diff.between_ranks import difference_of_files

        return Explained(difference_of_files(task.pair, task.reading, task.selection))

    found, words = _attempted(work)
    return found if found is not None else Explained(error=words)
