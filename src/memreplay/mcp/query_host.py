"""The main program of a process that holds a snapshot and forks a process for each query on it.

A forked process starts with the snapshot read and the libraries loaded. Only a process with a
single thread can fork safely, so the server can't do this itself.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct, msgpack

from memreplay.mcp.querying import answer, listing
from memreplay.render.compact import CompactLine
from memreplay.workers.contained import Bounds, Contained, end_with_parent

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.export.tables.joined import Joined

MOST_BYTES = 64 << 20  # of an answer, which `answer` keeps far below
# What queries need, so that their processes needn't import it.
_LOADED = (
    "ctypes",
    "duckdb",
    "faulthandler",
    "memreplay.export.tables.joined",
    "memreplay.export.tables.results",
    "pyarrow.compute",
    "resource",
)
_ROOM = 1  # bytes of a message that carries a descriptor


class Order(Struct, frozen=True):
    """The snapshot to read, and how. Pickled for the host."""

    name: str
    file_bytes: int
    salvage: bool
    limits: tuple[tuple[str, int], ...]
    project: tuple[str, ...]
    rules: tuple[Rule, ...]


class Asked(Struct, frozen=True):
    """A query and its limits."""

    query: str
    bounds: Bounds


class Answer(Struct, frozen=True):
    """A query's rows as JSON, the tables, or an error."""

    error: str = ""
    rows: bytes = b""
    tables: list[CompactLine] = []


def main(descriptor: int) -> None:
    """Read one snapshot, whose descriptor arrives on a socket, and answer queries until the socket
    closes. Each query arrives as the descriptor of its own socket.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Arrow's own allocators keep freed memory.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in _LOADED:
        with suppress(ImportError):
            import_module(name)
    control, parent = socket.socket(fileno=descriptor), os.getpid()
    connection = Connection(os.dup(descriptor))
    with suppress(EOFError, OSError):  # the server has ended
        file = _descriptor(control)
        order = pickle.loads(connection.recv_bytes())
        tables, opened = _open(file, order)
        connection.send_bytes(msgpack.encode(opened))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the forked processes
        while True:
            asked = _descriptor(control)
            if not os.fork():
                control.close()
                connection.close()
                _keep(asked, tables, parent)
            os.close(asked)


def _descriptor(control: socket.socket) -> int:
    """Receive a descriptor. Raises EOFError."""
    _, found, _, _ = socket.recv_fds(control, _ROOM, 1)
    if not found:
        raise EOFError
    return found[0]


def _open(file: int, order: Order) -> tuple[dict[str, Joined], Answer]:
    """Return the snapshot's tables, and the answer that lists them."""
    from memreplay.commands.shared.errors import attempt_unreported

    found, code, words = attempt_unreported(partial(_read, file, order))
    if code or found is None:
        return {}, Answer(error=words)
    for table in found.values():
        next(table.batches(), None)  # caches for all forked processes
    return found, Answer(tables=listing(found))


def _read(file: int, order: Order) -> dict[str, Joined]:
    from memreplay.export.tables.joined import joined_tables
    from memreplay.export.tables.querying import duckdb
    from memreplay.io.limits import Limits
    from memreplay.snapshot.snapshot import open as open_snapshot

    duckdb()
    with open(order.name, "rb", opener=lambda _name, _flags: file) as source:
        snapshot = open_snapshot(
            source,
            limits=Limits(**dict(order.limits)),
            salvage=order.salvage,
            project=order.project,
        )
    snapshot.file_bytes = order.file_bytes
    return joined_tables({snapshot.file: snapshot}, order.rules)


def _keep(descriptor: int, tables: dict[str, Joined], parent: int) -> NoReturn:
    """Answer one query: run it in a child, and end the child if the caller has given up."""
    try:
        end_with_parent(parent)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with Connection(descriptor) as connection:
            asked = msgpack.decode(connection.recv_bytes(), type=Asked)
            connection.send_bytes(msgpack.encode(_answer(tables, asked, descriptor)))
    except (EOFError, OSError):  # the server doesn't wait for the answer
        pass
    finally:
        os._exit(0)


def _answer(tables: dict[str, Joined], asked: Asked, gone: int) -> Answer:
    from memreplay.errors import UsageError

    rows = b""
    running = Contained(partial(answer, tables, asked.query), asked.bounds, gone=gone)
    try:
        for piece in running:
            rows += piece
            if len(rows) > MOST_BYTES:
                running.kill()
                raise UsageError("the answer is too long; use limit")
    except UsageError as error:
        return Answer(error=str(error))
    except RuntimeError as error:  # a bug; its last line is the exception
        return Answer(error=f"internal error: {str(error).strip().rpartition(chr(10))[2]}")
    return Answer(rows=rows)
