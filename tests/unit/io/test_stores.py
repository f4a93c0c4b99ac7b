"""stores: reading ranges from S3, from web servers with or without range support, and from any
other fsspec store.
"""

from __future__ import annotations

import asyncio
import http.server
import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from fsspec.asyn import AsyncFileSystem

import memreplay as mr
from memreplay.commands.app import app
from memreplay.io import ranges, stores
from memreplay.io.ranges import RangeReader
from memreplay.io.sources import open_source
from memreplay.io.stores import AnyFile, remote_file, tag_of
from tests import build
from tests.commanding import command_runner
from tests.faulty_proxy import Faults, Proxy
from tests.object_store import ObjectStore

KIB = 1 << 10
DATA = random.Random(22).randbytes(600 * KIB + 5)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "RANGE", 128 * KIB)
    monkeypatch.setattr(ranges, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(ranges, "STALL_S", 1.0)
    monkeypatch.setattr(stores, "PART", 32 * KIB)


def read(url: str) -> bytes:
    raw = open_source(url)
    try:
        return raw.read()
    finally:
        raw.close()


# ---- the web -------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    data = DATA
    seen: list[tuple[str, str | None]]

    def handle_error(self, *_: Any) -> None: ...


class Plain(http.server.BaseHTTPRequestHandler):
    """A server without ranges, like Python's own."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.headers["Range"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.server.data)


class OnceRanged(Plain):
    """A server that honours a range the first time, and never again."""

    def do_GET(self) -> None:
        if self.headers["Range"] != "bytes=0-0":
            super().do_GET()
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 0-0/{len(self.server.data)}")
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(self.server.data[:1])


@pytest.fixture
def serve() -> Iterator[Callable[[type[Plain]], Server]]:
    started = []

    def start(handler: type[Plain]) -> Server:
        server = Server(("127.0.0.1", 0), handler)
        server.seen = []
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/snap.pkl"


def test_ranges_are_read_from_a_web_server(store: ObjectStore, proxy: Proxy) -> None:
    store.put("web.bin", DATA, ACL="public-read")
    url = f"{proxy.url}/{store.bucket}/web.bin?key=secret"
    proxy.faults = Faults(resets=3, after=100 * KIB, rate=2000 * KIB)
    assert read(url) == DATA
    assert proxy.faults.resets == 0
    assert proxy.most_at_once == ranges.PARALLEL
    proxy.faults = Faults(refused=2, retry_after="0")
    assert read(url) == DATA
    store.put("empty.bin", b"", ACL="public-read")
    assert read(f"{proxy.url}/{store.bucket}/empty.bin") == b""


def test_server_that_stops_is_an_error(
    store: ObjectStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TRIES", 2)
    store.put("web.bin", DATA, ACL="public-read")
    url = f"{proxy.url}/{store.bucket}/web.bin?key=secret"
    for faults, words in (
        (Faults(refused=99, status=502), "gave up after 2 tries: the server says 502 bad gateway"),
        (Faults(refused=99, status=403), "the server says 403 forbidden"),
        (Faults(resets=99, after=9), "gave up at byte 18 of 614405 after 2 tries: "),
    ):
        proxy.faults = faults
        done = command_runner().invoke(app, ["peak", url])
        assert done.output.startswith(f"memreplay: error: {url[:-11]}: {words}")
        assert (done.exit_code, done.output.count("\n")) == (3, 1)
        assert "secret" not in done.output


def test_web_file_replaced_while_it_is_read_is_an_error(
    store: ObjectStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PARALLEL", 1)
    store.put("web.bin", DATA, ACL="public-read")

    def before(method: str, asked: str) -> None:
        if asked == "bytes=262144-393215":
            store.put("web.bin", DATA[::-1], ACL="public-read")

    proxy.faults.before = before
    with pytest.raises(OSError, match="replaced while it was read, at byte 262144"):
        read(f"{proxy.url}/{store.bucket}/web.bin")


def test_server_without_ranges_sends_the_whole_file(serve: Callable[[type[Plain]], Server]) -> None:
    server = serve(Plain)
    assert read(address(server)) == DATA
    assert server.seen == [("GET", "bytes=0-0"), ("GET", None)]
    raw = open_source(address(server))
    assert raw.total == len(DATA)
    raw.close()
    server.data = build.dump(build.SnapshotBuilder().alloc(0x1000, 64).build())
    assert mr.open(address(server)).native.n_events == 1


def test_server_that_starts_to_ignore_ranges_is_an_error(
    serve: Callable[[type[Plain]], Server],
) -> None:
    with pytest.raises(OSError, match="the server ignored the requested range"):
        read(address(serve(OnceRanged)))


# ---- any other -----------------------------------------------------------------------------------


class Shelf(AsyncFileSystem):  # type: ignore[misc, unused-ignore]
    """A store with one file, like gcsfs and adlfs."""

    cachable = False
    data = DATA
    tag = "a"
    after: dict[int, Callable[[Shelf], None]]  # what each request does
    asked = 0

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        kind = "directory" if path.endswith("folder") else "file"
        return {"name": path, "size": len(self.data), "etag": self.tag, "type": kind}

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        self.asked += 1
        if self.asked in self.after:
            self.after[self.asked](self)
        return self.data[start:end]


def shelved(**after: Callable[[Shelf], None]) -> tuple[Shelf, RangeReader]:
    shelf = Shelf()
    shelf.after = {int(number[1:]): action for number, action in after.items()}
    file = asyncio.run_coroutine_threadsafe(remote_file(shelf, "x"), shelf.loop).result()
    assert isinstance(file, AnyFile)
    return shelf, RangeReader(file, shelf.loop)


def all_of(reader: RangeReader) -> bytes:
    out = bytearray()
    buffer = memoryview(bytearray(10_000))
    while n := reader.readinto(buffer):
        out += buffer[:n]
    return bytes(out)


def fail(_: Shelf) -> None:
    raise ConnectionResetError("by peer")


def test_failed_parts_are_requested_again_from_any_store() -> None:
    shelf, reader = shelved(_3=fail, _4=fail, _9=fail)
    assert all_of(reader) == DATA
    assert shelf.asked == 19 + 3  # 19 parts, 3 of which failed once


def test_store_that_always_fails_is_an_error() -> None:
    def refuse(_: Shelf) -> None:
        raise PermissionError("no such right")

    _, reader = shelved(_1=refuse, _2=refuse, _3=refuse, _4=refuse)
    with pytest.raises(OSError, match=r"^the store refuses: no such right, at byte 0 of 614405$"):
        all_of(reader)
    reader.close()


def test_file_replaced_while_it_is_read_is_an_error() -> None:
    _, reader = shelved(_7=lambda shelf: setattr(shelf, "tag", "b"))
    with pytest.raises(OSError, match="the file was replaced while it was read"):
        all_of(reader)
    reader.close()


def test_folders_are_not_files(store: ObjectStore, proxy: Proxy) -> None:
    shelf = Shelf()
    with pytest.raises(IsADirectoryError):
        asyncio.run_coroutine_threadsafe(remote_file(shelf, "a/folder"), shelf.loop).result()
    store.put("folder/snap.pkl", b"1")
    done = command_runner().invoke(app, ["peak", f"s3://{store.bucket}/folder"])
    assert done.output.endswith("/folder: this is a directory; give a snapshot file in it\n")


def test_version_tag_comes_from_the_stores_metadata() -> None:
    when = datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert tag_of({"ETag": '"abc"', "LastModified": when}) == "abc"
    assert tag_of({"generation": 7, "mtime": when}) == "7"
    assert tag_of({"LastModified": when}) == "2026-01-02T00:00:00+00:00"
    assert tag_of({"mtime": 1.5}) == "1.5"
    assert tag_of({"size": 3}) == ""
