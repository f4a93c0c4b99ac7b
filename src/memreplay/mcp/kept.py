"""Keeps the snapshots that were asked last, so that many questions read a file once."""

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
# Bytes of pickles that the kept ones were read from: columns and replays take about as much.
MOST_BYTES = 1 << 30

Key = tuple["Identity", bool]
Read = Callable[["AllowedFile", bool], "Snapshot"]


class _Entry:
    """A snapshot, or what is going to be one: whoever holds the lock reads it or asks it."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.snapshot: Snapshot | None = None
        self.users = 0
        self.dropped = False


class Kept:
    """The snapshots by what their files are, whether salvaged or not."""

    def __init__(self, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def using(
        self, files: Sequence[tuple[AllowedFile, bool]], read: Read
    ) -> Iterator[list[Snapshot]]:
        """The snapshots of these files, each with whether to salvage it, for the caller alone;
        `read` reads one that is not there yet.

        A snapshot remembers what it was asked, so two questions to one wait for each other. Locks
        are taken in one order, so that none waits for ever.
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
            # What was there before under this path is not what is there now.
            for other in [one for one in self._entries if _is_older(one, key)]:
                self._drop(other)
            return entry

    def _let_go(self, key: Key, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1
            if entry.snapshot is None and not entry.users and self._entries.get(key) is entry:
                del self._entries[key]  # it could not be read
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


def _is_older(one: Key, than: Key) -> bool:
    return one[0].path == than[0].path and one[0] != than[0]


def _forget(entry: _Entry) -> None:
    """Frees a dropped snapshot once nobody asks it any more: leaving it forgets its replays."""
    if not entry.users and entry.snapshot is not None:
        entry.snapshot.__exit__(None, None, None)
        entry.snapshot = None
