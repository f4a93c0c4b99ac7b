"""An HTTP proxy that stalls, resets, refuses and slows down connections as a test specifies."""

from __future__ import annotations

import http.client
import http.server
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

PIECE = 64 << 10


@dataclass
class Faults:
    """Faults in responses with a body. Each number says how many more requests are affected."""

    refused: int = 0  # GETs answered with `status`
    refused_heads: int = 0  # HEADs answered with `status`
    status: int = 503
    retry_after: str = ""
    resets: int = 0  # bodies cut off by a connection reset after `after` bytes
    closes: int = 0  # bodies that end after `after` bytes without an error
    stalls: int = 0  # bodies that stall after `after` bytes, with the connection open
    after: int = 0
    rate: int = 0  # bytes per second on each connection; 0 for no limit
    before: Callable[[str, str], None] | None = None  # called with each request's method and range


@dataclass
class Proxy:
    """A running proxy: `url` is its address, `seen` has each request's method, path and range."""

    url: str
    faults: Faults
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    most_at_once: int = 0


@contextmanager
def proxy_of(address: tuple[str, int]) -> Iterator[Proxy]:
    """Start a proxy of the HTTP server at `address`, without faults until its `faults` are set."""
    lock = threading.Lock()
    over = threading.Event()
    now = 0

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def answer(self) -> None:
            nonlocal now
            faults = proxy.faults
            asked = self.headers.get("Range", "")
            with lock:
                proxy.seen.append((self.command, self.path, asked))
                now += 1
                proxy.most_at_once = max(proxy.most_at_once, now)
            try:
                if faults.before is not None:
                    faults.before(self.command, asked)
                refused = "refused_heads" if self.command == "HEAD" else "refused"
                if self.command in ("GET", "HEAD") and self.counts(refused):
                    self.refuse()
                else:
                    self.forward()
            except (BrokenPipeError, ConnectionResetError):  # the client went away
                self.close_connection = True
            finally:
                with lock:
                    now -= 1

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - as the library asks

        def counts(self, name: str) -> bool:
            with lock:
                left: int = getattr(proxy.faults, name)
                if left > 0:
                    setattr(proxy.faults, name, left - 1)
                return left > 0

        def refuse(self) -> None:
            self.send_response(proxy.faults.status)
            if proxy.faults.retry_after:
                self.send_header("Retry-After", proxy.faults.retry_after)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server = http.client.HTTPConnection(*address, timeout=60)
            # Keep the Host header that was signed.
            server.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = server.getresponse()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length")
            if length is None and self.command != "HEAD":
                held = answer.read()
                self.send_header("Content-Length", str(len(held)))
                self.end_headers()
                self.wfile.write(held)
            else:
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.pass_on(answer)
            server.close()

        def pass_on(self, answer: http.client.HTTPResponse) -> None:
            faults = proxy.faults
            spoiled = self.command == "GET" and int(answer.getheader("Content-Length") or 0) > (
                faults.after
            )
            how = next(
                (name for name in ("resets", "closes", "stalls") if spoiled and self.counts(name)),
                None,
            )
            sent, began = 0, time.monotonic()
            while piece := answer.read(PIECE if how is None else min(PIECE, faults.after - sent)):
                self.wfile.write(piece)
                sent += len(piece)
                if faults.rate:
                    time.sleep(max(0.0, began + sent / faults.rate - time.monotonic()))
            if how is None:
                return
            self.wfile.flush()
            self.close_connection = True
            if how == "stalls":
                over.wait(60)
            elif how == "resets":
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.connection.close()

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None: ...  # connections are cut on purpose

        def shutdown_request(self, request: Any) -> None:
            with suppress(OSError):
                super().shutdown_request(request)

    server = Server(("127.0.0.1", 0), Handler)
    proxy = Proxy(f"http://127.0.0.1:{server.server_address[1]}", Faults())
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
