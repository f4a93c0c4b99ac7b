"""Asks snapshots what a call wants to know: opens, keeps and locks them, and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from memreplay.commands.shared.errors import untold
from memreplay.commands.shared.source import Reading
from memreplay.errors import MemreplayError
from memreplay.mcp.kept import Kept

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.mcp.allowed import Allowed, AllowedFile
    from memreplay.snapshot.snapshot import Snapshot

T = TypeVar("T")


class ToldError(MemreplayError):
    """What went wrong, with the file's name, as the command line says it."""


class StoppedError(Exception):
    """Nobody waits for the answer any more."""


class Asking(Struct, frozen=True):
    """One call: what the server reads and keeps, and whether the call was given up."""

    allowed: Allowed
    kept: Kept
    reading: Reading
    rules: tuple[Rule, ...]
    stop: Event

    def about(self, file: str, work: Callable[[Snapshot], T], *, salvage: bool = False) -> T:
        """What a function finds in a snapshot. Raises ToldError, and UsageError for a file that may
        not be read."""
        allowed = self.allowed.file(file)
        with self.kept.using([(allowed, salvage)], self._read) as (snapshot,):
            self.check()
            return told(allowed.name, lambda: work(snapshot))

    def about_two(
        self, base: str, new: str, work: Callable[[Snapshot, Snapshot], T], *, salvage: bool = False
    ) -> T:
        """As `about`, of two snapshots."""
        files = [(self.allowed.file(one), salvage) for one in (base, new)]
        with self.kept.using(files, self._read) as (before, after):
            self.check()
            return told("", lambda: work(before, after))

    def check(self) -> None:
        """Raises StoppedError where the call was given up."""
        if self.stop.is_set():
            raise StoppedError

    def _read(self, file: AllowedFile, salvage: bool) -> Snapshot:
        self.check()
        return told(file.name, lambda: self._opened(file, salvage))

    def _opened(self, file: AllowedFile, salvage: bool) -> Snapshot:
        from memreplay.io.limits import Limits
        from memreplay.snapshot.snapshot import open as open_snapshot

        with self.allowed.open(file) as source:
            snapshot = open_snapshot(
                source,
                progress=lambda _done, _total: self.check(),
                limits=Limits(**dict(self.reading.limits)),
                salvage=salvage,
                project=self.reading.project,
            )
        snapshot.file_bytes = file.identity.size
        return snapshot


def told(name: str, work: Callable[[], T]) -> T:
    """What `work` finds. Raises ToldError with the line that the command line writes."""
    found, code, words = untold(work)
    if code:
        raise ToldError(f"{name}: {words}" if name else words)
    return found  # type: ignore[return-value]
