"""Keep the processes that hold snapshots for queries: one per file, and one ready for the next."""

from __future__ import annotations

import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from threading import Event, Lock
from typing import TYPE_CHECKING, BinaryIO

from msgspec import msgpack

from memreplay.errors import MemreplayError
from memreplay.mcp.cache import is_older
from memreplay.mcp.query_host import Answer, Asked, Order
from memreplay.mcp.querying import read_answer
from memreplay.workers.contained import Bounds
from memreplay.workers.running import packed
from memreplay.workers.spawning import start_python

if TYPE_CHECKING:
    from memreplay.mcp.cache import Key
    from memreplay.render.compact import CompactLine

MOST = 2
OPEN_SECONDS = 300.0
_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 3.0  # a process that ends queries in time needs less than this
_ENDED = "the query's process ended; try again"


class StoppedError(Exception):
    """The caller has given up."""


class _Host:
    """A process that holds a snapshot for queries. The lock's owner opens the file."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.is_ended = False
        self.opened: Answer | None = None
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start_python("memreplay.mcp.query_host", theirs.fileno())
        self._control = ours
        self._sending = Lock()

    def open(self, file: BinaryIO, order: Order, stop: Event) -> None:
        """Let the process read a file."""
        with suppress(OSError):
            socket.send_fds(self._control, [b"f"], [file.fileno()])
        with Connection(self._control.dup().detach()) as connection:
            with suppress(OSError):
                connection.send_bytes(packed(order))
            words = f"reading this took longer than {OPEN_SECONDS:g} s; serve a smaller file"
            self.opened = _heard(connection, stop, OPEN_SECONDS, words)

    def ask(self, query: str, bounds: Bounds, stop: Event) -> Answer:
        """Return the answer to a query. If the caller gives up, the process ends the query."""
        ours, theirs = socket.socketpair()
        with Connection(ours.detach()) as connection:
            with theirs, self._sending, suppress(OSError):
                socket.send_fds(self._control, [b"q"], [theirs.fileno()])
            with suppress(OSError):
                connection.send_bytes(msgpack.encode(Asked(query, bounds)))
            return _heard(connection, stop, bounds.seconds + _GRACE_SECONDS, _ENDED)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """End the process; its queries end with it."""
        self.is_ended = True
        self._process.kill()
        self._control.close()
        self._process.wait()


class _LostError(MemreplayError):
    """A process doesn't answer any more."""


def _heard(connection: Connection, stop: Event, seconds: float, words: str) -> Answer:
    """Wait for an answer. Raises StoppedError, or _LostError if there won't be one."""
    until = time.monotonic() + seconds
    while not connection.poll(_LOOK_SECONDS):
        if stop.is_set():
            raise StoppedError
        if time.monotonic() > until:
            raise _LostError(words)
    try:
        return msgpack.decode(connection.recv_bytes(), type=Answer)
    except (EOFError, OSError):
        raise _LostError(_ENDED) from None


class Hosts:
    """Processes by file identity and salvage flag; the last used ones stay."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._hosts: OrderedDict[Key, _Host] = OrderedDict()
        self._ready: _Host | None = None
        self._lock = Lock()

    def get_ready(self) -> None:
        """Start a process for the next file, which loads libraries meanwhile."""
        with self._lock:
            if self._ready is None and find_spec("duckdb") and find_spec("pyarrow"):
                self._ready = _Host()

    def ask(
        self, key: Key, source: tuple[Callable[[], BinaryIO], Order], asked: Asked, stop: Event
    ) -> list[CompactLine]:
        """Return a query's rows; without a query, the tables.

        `source`: opens the file if no process holds it yet, and says how to read it. Raises
        MemreplayError with the reason in one line, and StoppedError if the caller gave up.
        """
        host = self._read(key, source, stop)
        try:
            opened = host.opened or Answer(error=_ENDED)
            if opened.error:
                raise _LostError(opened.error)
            if not asked.query.strip():
                return opened.tables
            found = host.ask(asked.query, asked.bounds, stop)
        except _LostError:
            self._drop(key, host)
            raise
        finally:
            self._give_back(host)
        if found.error:
            raise MemreplayError(found.error)
        return read_answer(found.rows)

    def _read(self, key: Key, source: tuple[Callable[[], BinaryIO], Order], stop: Event) -> _Host:
        """Borrow a process that has read the file; wait if another call lets it read."""
        while True:
            host = self._borrowed(key)
            try:
                while not host.lock.acquire(timeout=_LOOK_SECONDS):
                    if stop.is_set():
                        raise StoppedError
                try:
                    # If the call that let it read was cancelled, this one needs a new process.
                    if host.opened is None and not host.is_ended:
                        self._open(key, host, source, stop)
                finally:
                    host.lock.release()
            except BaseException:
                self._give_back(host)
                raise
            if host.opened is not None:
                return host
            self._give_back(host)

    def _open(
        self, key: Key, host: _Host, source: tuple[Callable[[], BinaryIO], Order], stop: Event
    ) -> None:
        open_file, order = source
        try:
            with open_file() as file:
                host.open(file, order, stop)
        except (_LostError, StoppedError):
            self._drop(key, host)
            raise

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            hosts = [*self._hosts.values(), *([self._ready] if self._ready else [])]
            self._hosts.clear()
            self._ready = None
        for host in hosts:
            host.end()

    def _borrowed(self, key: Key) -> _Host:
        with self._lock:
            host = self._hosts.pop(key, None)
            unused = [one for one, other in self._hosts.items() if not other.users]
            old = [one for one in unused if is_older(one, key)]
            more = 1 + len(self._hosts) - len(old) - self._most
            old += [one for one in unused if one not in old][: max(more, 0)]
            ended = [self._hosts.pop(one) for one in old]
            ended += [one for one in (host, self._ready) if one is not None and not one.is_alive()]
            if host is None or host in ended:
                host = self._ready if self._ready not in ended else None
                self._ready = None
            host = self._hosts[key] = host or _Host()
            host.users += 1
        for one in ended:
            one.end()
        return host

    def _give_back(self, host: _Host) -> None:
        with self._lock:
            host.users -= 1

    def _drop(self, key: Key, host: _Host) -> None:
        with self._lock:
            if self._hosts.get(key) is host:
                del self._hosts[key]
        host.end()
