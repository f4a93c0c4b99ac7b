"""container: what is inside is told by content; every way to hand a snapshot in, and damage to
it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.container import FOREIGN, open_stream
from tests import build
from tests.build import SnapshotBuilder


def pickled(events: int = 300) -> bytes:
    builder = SnapshotBuilder()
    for i in range(events):
        builder.alloc(i * 7919, i * 31, frames=[("f", "a.py", i)])
    return build.dump(builder.build())


def zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    packed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "pickle": bytes,
    "gzip": gzip.compress,
    "zstd": zstd,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_by_content_not_by_name(kind: str, tmp_path: Path) -> None:
    plain = pickled()
    data = PACKERS[kind](plain)
    path = tmp_path / "snapshot.txt"
    path.write_bytes(data)
    for source in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        snap = mr.open(source)
        assert snap.native.n_events == 300
        assert (snap.container, snap.stream_bytes) == (kind, len(plain))


@pytest.mark.parametrize("kind", PACKERS)
def test_positions_count_the_input_as_it_lies_there(kind: str, tmp_path: Path) -> None:
    data = PACKERS[kind](pickled())
    path = tmp_path / "snap.pkl"
    path.write_bytes(data)
    for source in (path, data):
        stream = open_stream(source)
        assert stream.total == len(data)
        buffer = bytearray(1 << 20)
        while stream.readinto(memoryview(buffer)):
            assert 0 < stream.position() <= len(data)
        assert stream.position() == len(data)
        stream.close()


def test_several_members_are_one_stream() -> None:
    data = pickled()
    half = len(data) // 2
    for pack in (gzip.compress, zstd, lzma.compress, bz2.compress):
        assert mr.open(pack(data[:half]) + pack(data[half:])).native.n_events == 300


def test_more_than_a_window() -> None:
    data = pickled(40_000)
    assert len(data) > 2 << 20
    for pack in PACKERS.values():
        assert mr.open(pack(data)).native.n_events == 40_000


# ---- sources -------------------------------------------------------------------------------------


class OnlyRead:
    """A binary source with read() and nothing else."""

    def __init__(self, data: bytes, most: int) -> None:
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, n: int) -> bytes:
        return self._file.read(min(n, self._most))


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("most", [1, 1000])
def test_sources_that_only_read(kind: str, most: int) -> None:
    source: Any = OnlyRead(PACKERS[kind](pickled()), most)
    snap = mr.open(source)
    assert snap.native.n_events == 300
    assert (snap.file, snap.file_bytes) == ("<stream>", None)


@pytest.mark.parametrize("kind", PACKERS)
def test_pipes(kind: str) -> None:
    data = PACKERS[kind](pickled(2_000))
    taking, giving = os.pipe()

    def feed() -> None:
        with os.fdopen(giving, "wb") as out:
            out.write(data)

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        with os.fdopen(taking, "rb", buffering=0) as file:
            assert mr.open(file).native.n_events == 2_000
    finally:
        writer.join()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_named_pipes(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(pickled(),))
    writer.start()
    try:
        snap = mr.open(path)
    finally:
        writer.join()
    assert (snap.native.n_events, snap.file_bytes) == (300, None)


def test_files_are_closed_only_by_who_opened_them(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(gzip.compress(pickled()))
    with path.open("rb") as file:
        mr.open(file)
        assert not file.closed
    with path.open("rb", buffering=0) as raw:
        assert mr.open(raw).native.n_events == 300
        assert not raw.closed


def test_a_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_text("text", encoding="utf-8")
    with path.open(encoding="utf-8") as file, pytest.raises(TypeError, match="mode 'rb'"):
        mr.open(file)  # type: ignore[arg-type]


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        mr.open(tmp_path / "nothing.pkl")
    with pytest.raises(IsADirectoryError):
        mr.open(tmp_path)


# ---- what is something else ----------------------------------------------------------------------


@pytest.mark.parametrize("magic, what, hint", FOREIGN)
def test_foreign_files(magic: bytes, what: str, hint: str) -> None:
    for data in (magic, magic + bytes(100)):
        with pytest.raises(mr.SnapshotError) as caught:
            mr.open(data)
        assert str(caught.value) == f"{what} (byte 0); {hint}"


def test_an_empty_file() -> None:
    with pytest.raises(mr.SnapshotError, match="the file is empty"):
        mr.open(b"")
    with pytest.raises(mr.TruncatedError):
        mr.open(gzip.compress(b""))


# ---- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
@pytest.mark.parametrize("keep", [0.05, 0.3, 0.6, 0.95])
def test_a_compressed_file_that_is_cut_off(kind: str, keep: float) -> None:
    data = PACKERS[kind](pickled(3_000))
    with pytest.raises(mr.TruncatedError, match="truncated"):
        mr.open(data[: int(len(data) * keep)])


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_every_short_prefix(kind: str) -> None:
    data = PACKERS[kind](pickled(3))
    for n in range(5, len(data) - 8):
        with pytest.raises(mr.SnapshotError):
            mr.open(data[:n])


def test_a_cut_says_how_far_it_came() -> None:
    data = gzip.compress(pickled(3_000))
    with pytest.raises(
        mr.TruncatedError, match=r"gzip stream after \d+ compressed bytes"
    ) as caught:
        mr.open(data[: len(data) // 2])
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_a_damaged_file(kind: str) -> None:
    data = bytearray(PACKERS[kind](pickled(3_000)))
    for at in (len(data) // 4, len(data) // 2):
        broken = bytearray(data)
        broken[at : at + 30] = bytes(30)
        with pytest.raises(mr.SnapshotError):
            mr.open(broken)


def test_a_checksum_that_does_not_match() -> None:
    data = bytearray(gzip.compress(pickled()))
    data[-6] ^= 0xFF
    with pytest.raises(mr.SnapshotError, match="damaged gzip stream after"):
        mr.open(data)


def test_zstandard_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zstd(pickled())
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(mr.MissingExtraError, match=r"pip install 'memreplay\[zst\]'"):
        mr.open(data)
    assert mr.open(gzip.compress(pickled())).native.n_events == 300
