"""What growth is measured against: the base of each file, the last one kept for the next file."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from memreplay.commands.shared.base import base_for, opened_base
from memreplay.commands.shared.dumps import chosen_dump
from memreplay.commands.shared.errors import untold
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.comparing.sides import ComparedSide
    from memreplay.commands.shared.progress import Showing
    from memreplay.commands.shared.source import Reading
    from memreplay.gating.find import Terms


# Of a folder: the newest file of each rank, that of each dump, and the file if it is the only one.
_Ranks = tuple[dict[int, str], dict[tuple[int, str], str], "str | None"]


def _ranks_of(folder: str) -> _Ranks:
    from memreplay.analysis.comparing.rank_names import ranks_said
    from memreplay.io.listing import listed

    try:
        files = listed([folder])
    except UsageError:  # nothing is in it
        return {}, {}, None
    chosen = chosen_dump(files, None)
    dumps = {
        (dump.rank, dump.name): dump.file.path
        for history in chosen.histories
        for dump in history
        if dump.rank is not None
    }
    ranks = ranks_said([one.name for one in chosen.files])
    of = {rank: one.path for rank, one in zip(ranks, chosen.files, strict=True) if rank is not None}
    only = chosen.files[0].path if len(chosen.files) == 1 else None
    return of, dumps, only


class Bases:
    """Opens bases, of which one is open at a time: most often all files share it, else each has its
    own."""

    def __init__(self, reading: Reading, terms: Terms, showing: Showing) -> None:
        self.reading = reading
        self.terms = terms
        self.showing = showing
        self._until = ExitStack()
        self._folders: dict[str, _Ranks] = {}
        self._last: tuple[str, tuple[ComparedSide | None, int, str]] | None = None

    def of(self, name: str) -> tuple[ComparedSide | None, int, str]:
        """The side of a base; None, an exit code and words where it cannot be read."""
        if self._last is None or self._last[0] != name:
            self.close()
            self._last = name, untold(partial(self._opened, name))
        return self._last[1]

    def name_for(self, base: str, file: str, rank: int | None, dump: str, *, alone: bool) -> str:
        """The base of a file: by its name, or else by its rank, of the same dump if there is one,
        else of the newest. `alone`: there is no other file. Raises UsageError for none."""

        def of_rank() -> str | None:
            if base not in self._folders:
                self._folders[base] = _ranks_of(base)
            ranks, dumps, only = self._folders[base]
            if rank is None:
                return only if alone else None
            return dumps.get((rank, dump)) or ranks.get(rank)

        return base_for(base, file, of_rank)

    def close(self) -> None:
        """Let go of the last one."""
        self._last = None
        self._until.close()

    def _opened(self, name: str) -> ComparedSide:
        from memreplay.analysis.comparing.sides import BaselineSide, SnapshotSide

        found = opened_base(name, self.reading, self._until, self.showing)
        if isinstance(found, BaselineSide):
            return found
        return SnapshotSide(found, self.terms.selection)
