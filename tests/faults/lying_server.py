"""A web server that lies, as the test specifies, about lengths, ranges and encodings."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# (request number from 0, its range if any) -> the response; a number is a delay in seconds.
Answer = Callable[[int, "tuple[int, int] | None"], Iterable["bytes | float"]]
_RANGE = re.compile(rb"(?im)^range: bytes=([0-9]+)-([0-9]+)")


@dataclass
class Lying:
    """A running server: `url` is its address, `asked` the requested ranges."""

    url: str
    asked: list[tuple[int, int] | None] = field(default_factory=list)


def head(status: str, **headers: str | int) -> bytes:
    """Return the response's status line and headers, with `Connection: close`."""
    lines = [f"HTTP/1.1 {status}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def part(data: bytes, asked: tuple[int, int], **headers: str | int) -> bytes:
    """Return a correct response to a range."""
    start, stop = asked[0], min(asked[1] + 1, len(data))
    place = f"bytes {start}-{stop - 1}/{len(data)}"
    said = {"Content_Length": stop - start, "Content_Range": place, "ETag": '"1"', **headers}
    return head("206 Partial Content", **said) + data[start:stop]


@contextmanager
def lying(answer: Answer) -> Iterator[Lying]:
    """Start a server that answers this way, one request per connection."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = Lying(f"http://127.0.0.1:{listening.getsockname()[1]}/snap.pkl")
    over = threading.Event()
    lock = threading.Lock()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(30)
            request = b""
            while b"\r\n\r\n" not in request:
                if not (piece := connection.recv(65536)):
                    return
                request += piece
            found = _RANGE.search(request)
            asked = None if found is None else (int(found[1]), int(found[2]))
            with lock:
                number = len(server.asked)
                server.asked.append(asked)
            for sent in answer(number, asked):
                if over.is_set():
                    return
                if isinstance(sent, bytes):
                    connection.sendall(sent)
                else:
                    time.sleep(sent)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        over.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
