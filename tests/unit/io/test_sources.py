"""sources: what is a URL and what a path, every way to hand bytes in, and what may go wrong."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from memreplay.io import sources
from memreplay.io.sources import open_source
from memreplay.io.urls import is_url, without_secrets
from tests import build


def pickled() -> bytes:
    return build.dump(build.SnapshotBuilder().alloc(0x1000, 64).build())


# ---- paths, bytes, files -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, expected",
    [
        ("s3://bucket/snap.pkl", True),
        ("https://host/snap.pkl", True),
        ("memory://snap.pkl", True),
        ("simplecache::s3://bucket/snap.pkl", True),
        ("snap.pkl", False),
        ("./s3/snap.pkl", False),
        (r"C:\snaps\snap.pkl", False),
        ("C:/snaps/snap.pkl", False),
        ("C://snaps/snap.pkl", False),
        ("snap:1.pkl", False),
        ("-", False),
        ("", False),
    ],
)
def test_what_is_a_url(name: str, expected: bool) -> None:
    assert is_url(name) is expected


@pytest.mark.skipif(os.name == "nt", reason="no such file names")
def test_a_local_file_is_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory:").mkdir()
    (tmp_path / "memory:" / "snap.pkl").write_bytes(pickled())
    assert mr.open("memory://snap.pkl").file_bytes == len(pickled())


def test_bytes_of_any_kind() -> None:
    data = pickled()
    padded = data + b"." * (-len(data) % 8)
    kinds: list[Any] = [data, bytearray(data), memoryview(data), array("q", padded)]
    for source in kinds:
        raw = open_source(source)
        assert raw.total in (len(data), len(padded))
        assert raw.read(len(data)) == data
        assert mr.open(source).native.n_events == 1


def test_bytes_are_read_where_they_lie() -> None:
    data = memoryview(bytearray(b"0123456789"))
    raw = open_source(data)
    data[9] = ord("x")
    assert raw.read() == b"012345678x"
    assert (raw.seek(-4, os.SEEK_END), raw.read(2), raw.tell()) == (6, b"67", 8)
    assert (raw.seek(-1, os.SEEK_CUR), raw.seek(3), raw.read(1)) == (7, 3, b"3")
    assert (raw.seek(50), raw.read(1), raw.seek(-50, os.SEEK_END)) == (50, b"", 0)


def test_what_was_read_is_let_go() -> None:
    data = bytearray(pickled())
    mr.open(data)
    data.clear()  # which a view of it would not allow


def test_bytes_of_other_forms() -> None:
    data = pickled()
    table = memoryview(data).cast("B", (len(data), 1))
    for source in (table, memoryview(b"".join(bytes([b, 0]) for b in data))[::2]):
        assert mr.open(source).native.n_events == 1
    with pytest.raises(mr.SnapshotError, match="empty"):
        mr.open(b"")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is asked of Linux")
@pytest.mark.parametrize("wrap", ["bytes", "bytearray", "memoryview", "io.BytesIO"])
def test_bytes_take_no_more_memory_than_the_file(wrap: str, tmp_path: Path) -> None:
    code = f"""
import io, sys
import memreplay as mr
data = open(sys.argv[1], "rb").read()
source = {wrap}(data)
resident = lambda: [int(l.split()[1]) for l in open("/proc/self/status") if "VmHWM" in l][0]
mr.open({pickled()!r})
before = resident()
try:
    mr.open(source)
except mr.SnapshotError:
    pass
print(resident() - before)
"""
    path = tmp_path / "large.pkl"
    # A snapshot whose unknown key has 64 MB of bytes that are dropped.
    unknown = b"\x8c\x07unknownB" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20)
    path.write_bytes(b"\x80\x04}(" + 64 * unknown + b"u.")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) < 16 << 10  # KiB


def test_what_is_no_source() -> None:
    for source in (None, 7, ["snap.pkl"]):
        with pytest.raises(TypeError, match="a path, a URL, bytes or a binary file, not from"):
            open_source(source)  # type: ignore[arg-type]


class Dribbling(io.RawIOBase):
    """A file that gives three bytes at a time."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._file = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(memoryview(buffer)[:3])

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def test_read_gives_all_that_was_asked_for() -> None:
    data = bytes(range(100))
    raw = open_source(Dribbling(data))  # type: ignore[arg-type]
    assert raw.read(50) == data[:50]
    assert raw.taken == raw.tell() == 50
    assert raw.read() == data[50:]
    assert (raw.read(5), raw.taken) == (b"", 100)
    assert raw.seek(-3, os.SEEK_END) == 97
    assert raw.read() == data[97:]


def test_a_source_that_does_not_block_is_not_at_its_end() -> None:
    taking, giving = os.pipe()
    os.set_blocking(taking, False)
    with open(taking, "rb", buffering=0) as file, pytest.raises(BlockingIOError, match="no data"):
        mr.open(file)
    os.close(giving)


# ---- URLs ----------------------------------------------------------------------------------------


@pytest.fixture
def remote() -> Iterator[Any]:
    """fsspec's file system in memory, emptied afterwards."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def test_urls(remote: Any, tmp_path: Path) -> None:
    data = pickled()
    remote.pipe("/folder/snap.pkl", data)
    (tmp_path / "snap.pkl").write_bytes(data)
    for url in ("memory://folder/snap.pkl", f"file://{tmp_path}/snap.pkl"):
        told: list[tuple[int, int | None]] = []
        snap = mr.open(url, progress=lambda done, total, told=told: told.append((done, total)))  # type: ignore[misc]
        assert (snap.native.n_events, snap.file, snap.file_bytes) == (1, url, len(data))
        assert told[-1] == (len(data), len(data))


def test_a_remote_file_is_read_in_blocks(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem
    from fsspec.spec import AbstractBufferedFile

    data = build.dump(build.SnapshotBuilder().build()) + bytes(100_000)
    fetched: list[tuple[int, int]] = []

    class Blocks(AbstractBufferedFile):  # type: ignore[misc, unused-ignore]
        def _fetch_range(self, start: int, end: int) -> bytes:
            fetched.append((start, end))
            return data[start:end]

    def opened(system: Any, path: str, mode: str, **options: Any) -> Any:
        options["block_size"] //= 1024
        return Blocks(system, path, mode, size=len(data), **options)

    monkeypatch.setattr(MemoryFileSystem, "_open", opened)
    raw = open_source("memory://snap.pkl")
    assert raw.total == len(data)
    out = bytearray()
    while piece := raw.read(1000):
        out += piece
    assert out == data
    assert [start for start, _ in fetched] == sorted({start for start, _ in fetched})  # forward
    assert max(end - start for start, end in fetched) <= 2 * (sources.BLOCK // 1024)


@pytest.mark.parametrize(
    "url, words",
    [
        ("memory://nothing.pkl", "there is no such file"),
        ("nope://nothing.pkl", "protocol not known: nope"),
    ],
)
def test_urls_that_cannot_be_opened(remote: Any, url: str, words: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the words are the command line's
        mr.open(url)
    done = CliRunner().invoke(app, ["peak", url])
    assert done.exit_code == 3
    assert done.output == f"memreplay: error: {url}: {words}\n"


class UnreachedError(OSError):
    """As aiohttp's: it knows the host."""

    host = "nosuchhost.invalid"


class AnsweredError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}, message={message!r}")
        self.status, self.message = status, message


@pytest.mark.parametrize(
    "cause, words",
    [
        (
            UnreachedError(-2, "Name not known"),
            "cannot reach nosuchhost.invalid: name not known",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (TimeoutError(), "timeouterror"),
        (AnsweredError(403, "Forbidden"), "the server says 403 forbidden"),
        (AnsweredError(404, "Not found"), "there is no such file"),
        (ValueError("x"), "there is no such file"),
        (None, "there is no such file"),
    ],
)
def test_a_server_that_cannot_be_reached_is_no_missing_file(
    remote: Any, monkeypatch: pytest.MonkeyPatch, cause: Exception | None, words: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        # So says fsspec's file system of https://, whatever went wrong.
        raise FileNotFoundError("memory://snap.pkl") from cause

    monkeypatch.setattr(type(remote), "_open", fails)
    done = CliRunner().invoke(app, ["peak", "memory://snap.pkl"])
    assert done.exit_code == 3
    assert done.output == f"memreplay: error: memory://snap.pkl: {words}\n"


def test_any_error_of_a_remote_file_is_an_os_error(
    remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.BytesIO):
        def readinto(self, buffer: Any) -> int:
            raise RuntimeError("no credentials\nlook at the manual")

        def seek(self, offset: int, whence: int = 0) -> int:
            raise KeyError

    remote.pipe("/snap.pkl", b"1")
    monkeypatch.setattr(type(remote), "_open", lambda *_, **__: Broken())
    with pytest.raises(OSError, match=r"^no credentials$"):
        mr.open("memory://snap.pkl")
    with pytest.raises(OSError, match=r"^KeyError$"):
        open_source("memory://snap.pkl").seek(0)
    done = CliRunner().invoke(app, ["summary", "memory://snap.pkl"])
    assert (done.exit_code, done.output.count("\n")) == (3, 1)


def test_fsspec_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(mr.MissingExtraError, match=r"pip install 'memreplay\[remote\]'"):
        mr.open("s3://bucket/snap.pkl")
    assert mr.open(pickled()).native.n_events == 1


def test_a_store_may_need_a_package_of_its_own(
    remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(
        mr.MissingExtraError, match=r"s3:// needs .*: pip install 'memreplay\[s3\]' \(Install s3fs"
    ):
        mr.open("s3://bucket/snap.pkl")


@pytest.mark.parametrize(
    "url, shown",
    [
        ("https://ana:secret@host/snap.pkl?signature=1#2", "https://host/snap.pkl"),
        ("simplecache::https://host/a@b.pkl?key=1", "simplecache::https://host/a@b.pkl"),
        ("sftp://ana:secret@host/snap.pkl", "sftp://host/snap.pkl"),
        ("s3://bucket/a?b.pkl", "s3://bucket/a?b.pkl"),
        ("github://org:repo@main/snap.pkl", "github://org:repo@main/snap.pkl"),
    ],
)
def test_reports_show_no_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
