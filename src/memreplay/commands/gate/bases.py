"""Open each file's base, keeping it open in case the next file has the same base."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from memreplay.commands.shared.base import base_for, opened_base
from memreplay.commands.shared.dumps import chosen_dump
from memreplay.commands.shared.errors import attempt_unreported
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.comparing.sides import ComparedSide
    from memreplay.commands.shared.progress import Showing
    from memreplay.commands.shared.source import Reading
    from memreplay.gating.find import Terms


# A folder's newest file per rank, its files by rank and dump, and its only file if it has just one.
_Ranks = tuple[dict[int, str], dict[tuple[int, str], str], "str | None"]


def _ranks_of(folder: str) -> _Ranks:
    from memreplay.analysis.comparing.rank_names import explicit_ranks
    from memreplay.io.listing import listed

    try:
        files = listed([folder])
    except UsageError:  # the folder is empty
        return {}, {}, None
    chosen = chosen_dump(files, None)
    dumps = {
        (dump.rank, dump.name): dump.file.path
        for history in chosen.histories
        for dump in history
        if dump.rank is not None
    }
    ranks = explicit_ranks([one.name for one in chosen.files])
    of = {rank: one.path for rank, one in zip(ranks, chosen.files, strict=True) if rank is not None}
    only = chosen.files[0].path if len(chosen.files) == 1 else None
    return of, dumps, only


class Bases:
    """Opens bases. Keeps only one open, because usually all files share one base, or each has its
    own.
    """

    def __init__(self, reading: Reading, terms: Terms, showing: Showing) -> None:
        self.reading = reading
        self.terms = terms
        self.showing = showing
        self._until = ExitStack()
        self._folders: dict[str, _Ranks] = {}
        self._last: tuple[str, tuple[ComparedSide | None, int, str]] | None = None

    def of(self, name: str) -> tuple[ComparedSide | None, int, str]:
        """Return a base as a side of a comparison; if it's unreadable, return None, an exit code
        and a message.
        """
        if self._last is None or self._last[0] != name:
            self.close()
            self._last = name, attempt_unreported(partial(self._opened, name))
        return self._last[1]

    def name_for(self, base: str, file: str, rank: int | None, dump: str, *, alone: bool) -> str:
        """Return a file's base, found by the file's name or else by its rank, preferably in the
        same dump. `alone`: whether it's the only file to judge. Raises UsageError if there is no
        base.
        """

        def of_rank() -> str | None:
            if base not in self._folders:
                self._folders[base] = _ranks_of(base)
            ranks, dumps, only = self._folders[base]
            if rank is None:
                return only if alone else None
            return dumps.get((rank, dump)) or ranks.get(rank)

        return base_for(base, file, of_rank)

    def close(self) -> None:
        """Close the base that is open."""
        self._last = None
        self._until.close()

    def _opened(self, name: str) -> ComparedSide:
        from memreplay.analysis.comparing.sides import BaselineSide, SnapshotSide

        found = opened_base(name, self.reading, self._until, self.showing)
        if isinstance(found, BaselineSide):
            return found
        return SnapshotSide(found, self.terms.selection)
