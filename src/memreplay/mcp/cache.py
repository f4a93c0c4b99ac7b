"""Cache the last snapshots, so that several calls read a file only once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.mcp.allowed import AllowedFile, Identity
    from memreplay.snapshot.snapshot import Snapshot

MOST = 4
# Limit on the cached snapshots' total pickle size. Their columns and replays take about as much
# memory.
MOST_BYTES = 1 << 30

Key = tuple["Identity", bool]
Read = Callable[["AllowedFile", bool], "Snapshot"]


class _Entry:
    """A snapshot that was read or is being read. Whoever holds the lock reads or queries it."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.snapshot: Snapshot | None = None
        self.users = 0
        self.dropped = False


class Kept:
    """Snapshots by file identity and salvage flag."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def using(
        self, files: Sequence[tuple[AllowedFile, bool]], read: Read
    ) -> Iterator[list[Snapshot]]:
        """Lend these files' snapshots to one caller at a time, calling `read` for uncached ones.

        A snapshot caches results, so calls about the same snapshot wait for each other. Locks are
        taken in a fixed order to avoid deadlocks.
        """
        keys = [(file.identity, salvage) for file, salvage in files]
        by_key = dict(zip(keys, files, strict=True))
        order = sorted(by_key, key=lambda key: (key[0].path, key[0].inode, str(key)))
        entries = {key: self._entry(key) for key in order}
        try:
            with ExitStack() as until:
                for key in order:
                    entry = entries[key]
                    until.enter_context(entry.lock)
                    if entry.snapshot is None:
                        entry.snapshot = read(*by_key[key])
                yield [_there(entries[key]) for key in keys]
        finally:
            for key, entry in entries.items():
                self._let_go(key, entry)

    def _entry(self, key: Key) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            entry.users += 1
            # Drop older versions of the file at this path.
            for other in [one for one in self._entries if is_older(one, key)]:
                self._drop(other)
            return entry

    def _let_go(self, key: Key, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1
            if entry.snapshot is None and not entry.users and self._entries.get(key) is entry:
                del self._entries[key]  # the file couldn't be read
            if entry.dropped:
                _forget(entry)
            while len(self._entries) > self._most or (
                len(self._entries) > 1 and self._taken() > self._most_bytes
            ):
                self._drop(next(iter(self._entries)))

    def _taken(self) -> int:
        snapshots = (entry.snapshot for entry in self._entries.values())
        return sum(one.stream_bytes for one in snapshots if one is not None)

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key)
        entry.dropped = True
        _forget(entry)


def _there(entry: _Entry) -> Snapshot:
    assert entry.snapshot is not None
    return entry.snapshot


def is_older(one: Key, than: Key) -> bool:
    """Return whether a key is another version of the same path's file."""
    return one[0].path == than[0].path and one[0] != than[0]


def _forget(entry: _Entry) -> None:
    """Free a dropped snapshot and its replays, once no call uses it."""
    if not entry.users and entry.snapshot is not None:
        entry.snapshot.__exit__(None, None, None)
        entry.snapshot = None
