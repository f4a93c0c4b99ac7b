"""What a worker does, wherever it is: one rank read, or two compared. Nothing of it may fail."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.commands.fleet.result import FleetRank, RankStatus
from memreplay.commands.shared.errors import untold
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.dataset import Part
    from memreplay.commands.fleet.find import Explained, Pair
    from memreplay.commands.shared.progress import Update


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

    is_short = False

    def work() -> FleetRank:
        nonlocal is_short
        from memreplay.commands.fleet.row import rank_row

        try:
            with opened(task.file, task.reading, _quiet) as snapshot:
                row = rank_row(snapshot, task.selection, task.totals)
                if task.part is not None:
                    from memreplay.commands.fleet.dataset import write_rank

                    write_rank(snapshot, task.part, row, task.selection)
                return row
        except MemoryError:
            is_short = True
            raise

    found, _, words = untold(work)
    if is_short:
        return unread(task.file, "memory", SHORT)
    return found or unread(task.file, "unreadable", words)


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
    from memreplay.commands.fleet.find import Explained, difference

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

    found, _, words = untold(work)
    return found if found is not None else Explained(error=words)


def _quiet(_file: str) -> AbstractContextManager[Update | None]:
    """No bar: the command has one over all ranks."""
    return nullcontext(None)
