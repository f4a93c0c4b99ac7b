"""Open, cache and lock snapshots for a tool call, and report errors."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from memreplay.commands.shared.errors import attempt_unreported
from memreplay.commands.shared.source import Reading
from memreplay.errors import MemreplayError
from memreplay.mcp.cache import Kept
from memreplay.mcp.hosts import Hosts, StoppedError
from memreplay.mcp.query_host import Asked, Order
from memreplay.mcp.querying import BOUNDS

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.mcp.allowed import Allowed, AllowedFile
    from memreplay.render.compact import CompactLine
    from memreplay.snapshot.snapshot import Snapshot

T = TypeVar("T")


class ReportedError(MemreplayError):
    """An error, with the message that the command line prints, including the file name."""


class ToolCall(Struct, frozen=True):
    """One call: the server's state, and whether the caller has given up."""

    allowed: Allowed
    kept: Kept
    hosts: Hosts
    reading: Reading
    rules: tuple[Rule, ...]
    stop: Event

    def about(self, file: str, work: Callable[[Snapshot], T], *, salvage: bool = False) -> T:
        """Return a function's result for a snapshot.

        Raises ReportedError, or UsageError if the file isn't allowed.
        """
        allowed = self.allowed.file(file)
        with self.kept.using([(allowed, salvage)], self._read) as (snapshot,):
            self.check()
            return reported(allowed.name, lambda: work(snapshot))

    def about_two(
        self, base: str, new: str, work: Callable[[Snapshot, Snapshot], T], *, salvage: bool = False
    ) -> T:
        """Like `about`, for two snapshots."""
        files = [(self.allowed.file(one), salvage) for one in (base, new)]
        with self.kept.using(files, self._read) as (before, after):
            self.check()
            return reported("", lambda: work(before, after))

    def ask(self, file: str, query: str, *, salvage: bool = False) -> list[CompactLine]:
        """Return a query's rows, or the tables without a query.

        The query runs in another process, so it doesn't wait for other calls about the same file,
        nor they for it. Raises ReportedError, or UsageError if the file isn't allowed.
        """
        allowed = self.allowed.file(file)
        reading = self.reading
        order = Order(
            allowed.name,
            allowed.identity.size,
            salvage,
            tuple(dict(reading.limits).items()),
            reading.project,
            self.rules,
        )
        source = (lambda: self.allowed.open(allowed)), order
        asked = Asked(query, BOUNDS)
        return reported(
            allowed.name,
            lambda: self.hosts.ask((allowed.identity, salvage), source, asked, self.stop),
        )

    def check(self) -> None:
        """Raise StoppedError if the caller has given up."""
        if self.stop.is_set():
            raise StoppedError

    def _read(self, file: AllowedFile, salvage: bool) -> Snapshot:
        self.check()
        return reported(file.name, lambda: self._opened(file, salvage))

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


def reported(name: str, work: Callable[[], T]) -> T:
    """Return the result of `work`. Raises ReportedError with the command line's message."""
    found, code, words = attempt_unreported(work)
    if code:
        raise ReportedError(f"{name}: {words}" if name else words)
    return found  # type: ignore[return-value]
