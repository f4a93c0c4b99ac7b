"""What a worker does, wherever it is: one rank read, or two compared. Nothing of it may fail, but
for want of memory."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memreplay.commands.shared.errors import untold
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import SnapshotError
from memreplay.fleets.result import FleetRank, RankStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.dataset import Part
    from memreplay.commands.shared.progress import Update
    from memreplay.fleets.find import Explained, Pair

T = TypeVar("T")

SHORT = "takes more memory than a worker may have; read a part with --from and --to"


class RankTask(Struct, frozen=True):
    """One rank's file, the cards on which it may fit or not, and what to write of it."""

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
    """What is told of a file, or why nothing is."""

    def work() -> FleetRank:
        from memreplay.fleets.row import rank_row

        before = _written(task.file)
        try:
            with opened(task.file, task.reading, _quiet) as snapshot:
                row = rank_row(snapshot, task.selection, task.totals)
                _check_unwritten(task.file, before)
                if task.part is not None:
                    from memreplay.commands.fleet.dataset import write_rank

                    write_rank(snapshot, task.part, row, task.selection)
                return row
        except SnapshotError:
            _check_unwritten(task.file, before)  # if so, that is why
            raise

    found, words = _attempted(work)
    return found or unread(task.file, "unreadable", words)


def _attempted(work: Callable[[], T]) -> tuple[T | None, str]:
    """What it gives, or why nothing. Raises MemoryError: whether there is enough may depend on what
    this process did before, and whoever it works for knows that."""
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

    found, _, words = untold(watched)
    if is_short:
        raise MemoryError(SHORT)
    return found, words


def _written(file: str) -> tuple[int, ...] | None:
    """What is another one once a file of this machine is written to; of a URL its reader sees to
    that."""
    if not os.path.isfile(file):
        return None
    try:
        # Not by its name alone, which a network's file system may have from an hour ago.
        with open(file, "rb") as there:
            status = os.fstat(there.fileno())
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _check_unwritten(file: str, before: tuple[int, ...] | None) -> None:
    """Raise SnapshotError for a file that was written to while it was read: it may have been read
    half as it was. One that another took the place of was read as it was."""
    now = _written(file)
    if before is not None and now is not None and now != before and now[:2] == before[:2]:
        raise SnapshotError("the file was changed while it was read; run it again")


def unread(file: str, status: RankStatus, words: str) -> FleetRank:
    """The row of a file of which nothing is known."""
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
    """The code that makes the difference between two ranks, or why that cannot be told."""
    from memreplay.fleets.find import Explained, difference

    pair = task.pair

    def work() -> Explained:
        with ExitStack() as files:
            base, new = (
                files.enter_context(opened(file, replace(task.reading, device=device), _quiet))
                for file, device in (
                    (pair.base, pair.base_device),
                    (pair.new, pair.new_device),
                )
            )
            return Explained(difference(base, new, task.selection))

    found, words = _attempted(work)
    return found if found is not None else Explained(error=words)


def _quiet(_file: str) -> AbstractContextManager[Update | None]:
    """No bar: the command has one over all ranks."""
    return nullcontext(None)
