"""readahead: it gives the same bytes and errors as reading directly, holds only a few blocks, and
leaves no thread behind.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.io import container, readahead
from memreplay.io.readahead import BLOCKS, ROOM, SIZE, ReadAhead
from memreplay.snapshot import snapshot
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads() == []


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks so small that the remainder doesn't always fit in front of the next block."""
    monkeypatch.setattr(readahead, "SIZE", 5_000)
    monkeypatch.setattr(readahead, "ROOM", 300)


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read ahead by the same amount on every machine, small enough for tests."""
    monkeypatch.setattr(snapshot, "several_cpus", lambda: True)
    monkeypatch.setattr(container, "SLOW_FROM", 1 << 20)


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "memreplay-readahead"]


def soon(true: Callable[[], bool]) -> bool:
    """Wait until something is true, however busy the machine is; return False if it never is."""
    until = time.monotonic() + 30
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def reads(pid: int, path: Path) -> bool:
    """Return whether a process has a file open. On systems other than Linux, just wait and return
    True.
    """
    fds = Path(f"/proc/{pid}/fd")
    if not fds.is_dir():
        time.sleep(1.5)
        return True
    with contextlib.suppress(OSError):
        return any(path.samefile(fd) for fd in fds.iterdir() if fd.exists())
    return False


def filler(data: bytes, most: int = 1 << 30, error: BaseException | None = None) -> Any:
    """Return a readinto over `data` that yields up to `most` bytes at once, and ends with
    `error`.
    """
    file = io.BytesIO(data)

    def fill(view: memoryview) -> int:
        n = file.readinto(view[:most])
        if not n and error is not None:
            raise error
        return n

    return fill


def nothing() -> None: ...


def drained(ahead: ReadAhead) -> tuple[bytes, BaseException | None]:
    """Return all blocks' contents, and the last one's error."""
    out = bytearray()
    while True:
        block, start, stop, error = ahead.next()
        assert start == ROOM
        out += block[start:stop]
        if error is not None or stop < len(block):
            return bytes(out), error


DATA = random.Random(7).randbytes(3 * SIZE + 12_345)


@pytest.mark.parametrize("length", [0, 1, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, len(DATA)])
@pytest.mark.parametrize("most", [1 << 30, 300_000])
def test_bytes_arrive_in_order(length: int, most: int) -> None:
    ahead = ReadAhead(filler(DATA[:length], most), nothing)
    assert drained(ahead) == (DATA[:length], None)
    ahead.close()


def test_block_stays_valid_until_the_call_after_next() -> None:
    ahead = ReadAhead(filler(DATA), nothing)
    first = ahead.next()[0]
    before = bytes(first)
    second = ahead.next()[0]
    time.sleep(0.02)  # the thread fills free blocks
    assert first == before
    assert second is not first
    ahead.close()


def test_readahead_is_limited_to_a_few_blocks() -> None:
    asked: list[int] = []

    def endless(view: memoryview) -> int:
        asked.append(len(view))
        return len(view)

    ahead = ReadAhead(endless, nothing)
    ahead.next()
    assert soon(lambda: sum(asked) >= BLOCKS * SIZE)
    time.sleep(0.1)  # nothing more arrives
    assert sum(asked) == BLOCKS * SIZE
    ahead.close()


def test_bytes_before_an_error_are_delivered_first() -> None:
    ahead = ReadAhead(filler(DATA, error=OSError("the disk is gone")), nothing)
    data, error = drained(ahead)
    assert data == DATA
    assert isinstance(error, OSError)
    ahead.close()


@pytest.mark.parametrize("given", [-1, 1 << 40])
def test_source_with_wrong_lengths_is_refused(given: int) -> None:
    ahead = ReadAhead(lambda view: given, nothing)
    assert isinstance(ahead.next()[3], ValueError)
    ahead.close()


@pytest.mark.parametrize("blocks", [0, 1, 3, 4])
def test_closing_early_ends_the_thread_before_the_source(blocks: int) -> None:
    alive: list[int] = []
    ahead = ReadAhead(len, lambda: alive.append(len(threads())))
    for _ in range(blocks):
        ahead.next()
    ahead.close()
    assert alive == [0]


def test_hanging_read_is_abandoned_and_its_source_closed_later() -> None:
    hanging, goes_on, closed = threading.Event(), threading.Event(), threading.Event()

    def fill(view: memoryview) -> int:
        if not hanging.is_set() and not ready.is_set():
            ready.set()
            return len(view)
        hanging.set()
        goes_on.wait(10)
        return len(view)

    ready = threading.Event()
    ahead = ReadAhead(fill, closed.set)
    ahead.next()
    assert hanging.wait(10)
    begin = time.monotonic()
    ahead.close()
    assert time.monotonic() - begin < 5
    assert not closed.is_set()
    (thread,) = threads()
    goes_on.set()
    thread.join(10)
    assert closed.is_set()


# ---- whole snapshots -----------------------------------------------------------------------------


def pickled() -> bytes:
    builder = SnapshotBuilder()
    for i in range(40_000):
        frames = [("f" * (i % 50), "a.py", k) for k in range(i % 7)]
        builder.alloc(i * 7919, i * 31, frames=frames)
    return build.dump(builder.build())


@pytest.fixture(scope="module")
def plain() -> bytes:
    """Return a snapshot that spans more than two windows."""
    data = pickled()
    assert len(data) > 2 << 20
    return data


def zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    packed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return packed


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("snap.pkl", data)
    return out.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "pickle": bytes,
    "gzip": gzip.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "bzip2": lambda data: bz2.compress(data, 1),  # larger blocks take ten times as long to read
    "zstd": zstd,
    "zip": zipped,
}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that switches reading to a single thread."""
    return lambda: monkeypatch.setattr(snapshot, "several_cpus", lambda: False)


def outcome(source: Any, salvage: bool = False) -> tuple[object, ...]:
    """Return the result of reading: the columns, or the error message."""
    try:
        snap = mr.open(source, salvage=salvage)
    except (mr.MemreplayError, OSError) as error:
        return type(error), str(error)
    cut = snap.truncation and str(snap.truncation)
    columns = (snap.events.address.tolist(), snap.events.stack.tolist())
    return cut, snap.stream_bytes, snap.native.n_strings, columns


def sources(path: Path) -> Iterator[Any]:
    """The kinds of input that another thread reads ahead."""
    data = path.read_bytes()
    yield path
    yield data
    yield io.BytesIO(data)
    with path.open("rb") as file:
        yield file


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", PACKERS)
def test_snapshot_reads_the_same_on_one_thread(
    kind: str, plain: bytes, tmp_path: Path, alone: Callable[[], None]
) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(PACKERS[kind](plain))
    found = [outcome(source) for source in sources(path)]
    alone()
    assert found == [outcome(source) for source in sources(path)]
    assert found[0][:2] == (None, len(plain))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("salvage", [False, True])
def test_truncated_input_gives_the_same_error_on_one_thread(
    kind: str, salvage: bool, plain: bytes, tmp_path: Path, alone: Callable[[], None]
) -> None:
    path = tmp_path / "snap.pkl"
    data = PACKERS[kind](plain)
    rng = random.Random(5)
    for end in [len(data) - 1, len(data) - 9, *(rng.randrange(len(data)) for _ in range(3))]:
        path.write_bytes(data[:end])
        with pytest.MonkeyPatch.context() as patch:
            found = outcome(path, salvage)
            patch.setattr(snapshot, "several_cpus", lambda: False)
            assert found == outcome(path, salvage), end


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["gzip", "xz", "bzip2", "zstd"])
def test_damage_after_the_snapshot_is_detected(kind: str, plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    data = bytearray(PACKERS[kind](plain))
    # In each format the last bytes are, or contain, a checksum.
    data[-6 if kind != "zstd" else -2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(mr.SnapshotError, match=f"{kind} stream"):
        mr.open(path)


@pytest.mark.usefixtures("small_blocks")
def test_string_may_be_longer_than_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    text = "x" * 700_001 + "y" * 900_000
    settings = {f"key{i}": text[i:] for i in range(4)}
    path.write_bytes(build.dump({"segments": [], "allocator_settings": settings}))
    assert mr.open(path).settings == settings


@pytest.mark.slow
def test_bomb_is_detected_by_its_ratio(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\x80\x04" + b"N0" * (40 << 20)))
    with pytest.raises(mr.LimitError, match="decompression_ratio"):
        mr.open(path)


def test_early_error_ends_the_reading(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    at = len(plain) // 2
    path.write_bytes(plain[:at] + b"\xff" * 64 + plain * 4)
    with pytest.raises(mr.SnapshotError, match=f"byte {at}"[:-3]):
        mr.open(path)


def test_callback_can_stop_the_reading(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(plain)

    def stop(done: int, _total: int | None) -> None:
        if done > 1 << 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mr.open(path, progress=stop)


def begun(monkeypatch: pytest.MonkeyPatch) -> list[ReadAhead]:
    """Return a list to which every ReadAhead started after this call is added."""
    found: list[ReadAhead] = []
    begin = ReadAhead._begin

    def noted(self: ReadAhead) -> None:
        found.append(self)
        begin(self)

    monkeypatch.setattr(ReadAhead, "_begin", noted)
    return found


def test_small_input_starts_no_thread(
    plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: Callable[[], None]
) -> None:
    found = begun(monkeypatch)
    path = tmp_path / "snap.pkl"
    path.write_bytes(plain)
    mr.open(path)
    mr.open(gzip.compress(plain))
    mr.open(plain)  # data in memory is copied in chunks, also in the background
    mr.open(io.BytesIO(plain))
    assert len(found) == 4
    path.write_bytes(build.dump(SnapshotBuilder().build()))
    mr.open(path)  # the file is smaller than a window
    path.write_bytes(plain)
    monkeypatch.setattr(container, "SLOW_FROM", len(plain) + 1)
    mr.open(path)
    monkeypatch.setattr(container, "SLOW_FROM", 0)
    alone()
    mr.open(path)
    assert len(found) == 4


@pytest.mark.parametrize("kind", ["pickle", "gzip"])
def test_pipe_is_read_by_the_caller(
    kind: str, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Reading a pipe may wait forever, and only the caller's read can be interrupted.
    found = begun(monkeypatch)
    taking, giving = os.pipe()

    def write() -> None:
        with os.fdopen(giving, "wb") as file:
            file.write(PACKERS[kind](plain))

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(taking, "rb") as file:
        assert mr.open(file).stream_bytes == len(plain)
    writer.join()
    assert found == []


def test_snapshot_is_read_without_threads(
    plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "snap.pkl"
    path.write_bytes(plain)
    monkeypatch.setattr(threading.Thread, "start", none_left)
    assert mr.open(path).stream_bytes == len(plain)


@pytest.mark.slow
def test_interrupt_ends_the_command(tmp_path: Path) -> None:
    # The file is compressed so well that the signal arrives long before everything is read.
    path = tmp_path / "endless.pkl.gz"
    part = gzip.compress(b"N0" * (4 << 20), 1)
    path.write_bytes(gzip.compress(b"\x80\x04") + part * 2_000)
    child = subprocess.Popen(
        [sys.executable, "-m", "memreplay", "peak", path, "--limit", "decompression_ratio=9999"],
        stderr=subprocess.PIPE,
    )
    assert child.stderr is not None
    with child, child.stderr:
        assert soon(lambda: reads(child.pid, path))
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
        assert child.stderr.read() == b""
