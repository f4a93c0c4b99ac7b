"""remote: reading a URL as a stream through fsspec, and errors on opening it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.app import app
from memreplay.io import remote as remote_files
from memreplay.io.sources import open_source
from tests import build
from tests.commanding import command_runner


def pickled() -> bytes:
    return build.dump(build.SnapshotBuilder().alloc(0x1000, 64).build())


@pytest.fixture
def remote() -> Iterator[Any]:
    """fsspec's file system in memory, emptied afterwards."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def test_snapshot_is_read_from_a_url(remote: Any, tmp_path: Path) -> None:
    data = pickled()
    remote.pipe("/folder/snap.pkl", data)
    (tmp_path / "snap.pkl").write_bytes(data)
    for url in ("memory://folder/snap.pkl", f"file://{tmp_path}/snap.pkl"):
        told: list[tuple[int, int | None]] = []
        snap = mr.open(url, progress=lambda done, total, told=told: told.append((done, total)))  # type: ignore[misc]
        assert (snap.native.n_events, snap.file, snap.file_bytes) == (1, url, len(data))
        assert told[-1] == (len(data), len(data))


def test_remote_file_is_read_in_blocks(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert max(end - start for start, end in fetched) <= 2 * (remote_files.BLOCK // 1024)


@pytest.mark.parametrize(
    "url, words",
    [
        ("memory://nothing.pkl", "no such file"),
        ("nope://nothing.pkl", "protocol not known: nope"),
    ],
)
def test_url_that_cannot_be_opened_is_an_error(remote: Any, url: str, words: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the words are the command line's
        mr.open(url)
    done = command_runner().invoke(app, ["peak", url])
    assert done.exit_code == 3
    assert done.stderr == f"memreplay: error: {url}: {words}\n"


class UnreachedError(OSError):
    """An error like aiohttp's, whose text contains the host."""

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
        (AnsweredError(404, "Not found"), "no such file"),
        (ValueError("x"), "no such file"),
        (None, "no such file"),
    ],
)
def test_unreachable_server_is_not_a_missing_file(
    remote: Any, monkeypatch: pytest.MonkeyPatch, cause: Exception | None, words: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        # fsspec's file system for https:// reports this for any error.
        raise FileNotFoundError("memory://snap.pkl") from cause

    monkeypatch.setattr(type(remote), "_open", fails)
    done = command_runner().invoke(app, ["peak", "memory://snap.pkl"])
    assert done.exit_code == 3
    assert done.stderr == f"memreplay: error: memory://snap.pkl: {words}\n"


def test_every_error_of_a_remote_file_is_an_os_error(
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
    done = command_runner().invoke(app, ["summary", "memory://snap.pkl"])
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1)


def test_missing_fsspec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(mr.MissingExtraError, match=r"\(the extra 'remote'\)"):
        mr.open("s3://bucket/snap.pkl")
    assert mr.open(pickled()).native.n_events == 1


def test_missing_store_package_is_named(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(
        mr.MissingExtraError, match=r"s3:// needs .* \(Install s3fs.*pip install .* \(the extra"
    ):
        mr.open("s3://bucket/snap.pkl")
