"""readahead: the same bytes and errors as without it, few blocks of memory, no thread left."""

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
    """Blocks so small that what is left over does not always fit in front of the next one."""
    monkeypatch.setattr(readahead, "SIZE", 5_000)
    monkeypatch.setattr(readahead, "ROOM", 300)


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine, and for files that tests can afford."""
    monkeypatch.setattr(snapshot, "several_cpus", lambda: True)
    monkeypatch.setattr(container, "SLOW_FROM", 1 << 20)


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "memreplay-readahead"]


def soon(true: Callable[[], bool]) -> bool:
    """Waits until something is true, however busy the machine is; False where it never is."""
    until = time.monotonic() + 30
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def reads(pid: int, path: Path) -> bool:
    """Whether a process has a file open; elsewhere than on Linux, whether it had time to do so."""
    fds = Path(f"/proc/{pid}/fd")
    if not fds.is_dir():
        time.sleep(1.5)
        return True
    with contextlib.suppress(OSError):
        return any(path.samefile(fd) for fd in fds.iterdir() if fd.exists())
    return False


def filler(data: bytes, most: int = 1 << 30, error: BaseException | None = None) -> Any:
    """A readinto over `data` that gives `most` bytes at once, and ends in `error`."""
    file = io.BytesIO(data)

    def fill(view: memoryview) -> int:
        n = file.readinto(view[:most])
        if not n and error is not None:
            raise error
        return n

    return fill


def nothing() -> None: ...


def drained(ahead: ReadAhead) -> tuple[bytes, BaseException | None]:
    """What all blocks hold, and the error of the last."""
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
def test_all_bytes_come_in_order(length: int, most: int) -> None:
    ahead = ReadAhead(filler(DATA[:length], most), nothing)
    assert drained(ahead) == (DATA[:length], None)
    ahead.close()


def test_a_block_stays_as_it_is_until_the_call_after_the_next() -> None:
    ahead = ReadAhead(filler(DATA), nothing)
    first = ahead.next()[0]
    before = bytes(first)
    second = ahead.next()[0]
    time.sleep(0.02)  # the thread fills what is free
    assert first == before
    assert second is not first
    ahead.close()


def test_no_more_than_a_few_blocks_are_read_ahead() -> None:
    asked: list[int] = []

    def endless(view: memoryview) -> int:
        asked.append(len(view))
        return len(view)

    ahead = ReadAhead(endless, nothing)
    ahead.next()
    assert soon(lambda: sum(asked) >= BLOCKS * SIZE)
    time.sleep(0.1)  # no more comes
    assert sum(asked) == BLOCKS * SIZE
    ahead.close()


def test_bytes_before_an_error_come_with_it() -> None:
    ahead = ReadAhead(filler(DATA, error=OSError("the disk is gone")), nothing)
    data, error = drained(ahead)
    assert data == DATA
    assert isinstance(error, OSError)
    ahead.close()


@pytest.mark.parametrize("given", [-1, 1 << 40])
def test_a_source_that_lies_is_refused(given: int) -> None:
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


def test_a_read_that_hangs_is_left_alone_and_its_source_closed_afterwards() -> None:
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
    """A snapshot of two windows and more."""
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
    """Call it to read on one thread from there on."""
    return lambda: monkeypatch.setattr(snapshot, "several_cpus", lambda: False)


def outcome(source: Any, salvage: bool = False) -> tuple[object, ...]:
    """What reading gives: the columns, or the error in words."""
    try:
        snap = mr.open(source, salvage=salvage)
    except (mr.MemreplayError, OSError) as error:
        return type(error), str(error)
    cut = snap.truncation and str(snap.truncation)
    columns = (snap.events.address.tolist(), snap.events.stack.tolist())
    return cut, snap.stream_bytes, snap.native.n_strings, columns


def sources(path: Path) -> Iterator[Any]:
    """The ways to hand in a file that is read on another thread."""
    data = path.read_bytes()
    yield path
    yield data
    yield io.BytesIO(data)
    with path.open("rb") as file:
        yield file


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", PACKERS)
def test_a_snapshot_reads_the_same(
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
def test_what_is_cut_off_ends_the_same(
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
def test_damage_behind_the_snapshot_is_seen(kind: str, plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    data = bytearray(PACKERS[kind](plain))
    # In each format the last bytes are, or hold, a checksum.
    data[-6 if kind != "zstd" else -2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(mr.SnapshotError, match=f"{kind} stream"):
        mr.open(path)


@pytest.mark.usefixtures("small_blocks")
def test_a_text_longer_than_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    text = "x" * 700_001 + "y" * 900_000
    settings = {f"key{i}": text[i:] for i in range(4)}
    path.write_bytes(build.dump({"segments": [], "allocator_settings": settings}))
    assert mr.open(path).settings == settings


@pytest.mark.slow
def test_a_bomb_is_told_by_its_ratio(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\x80\x04" + b"N0" * (40 << 20)))
    with pytest.raises(mr.LimitError, match="decompression_ratio"):
        mr.open(path)


def test_an_early_error_ends_the_reading(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    at = len(plain) // 2
    path.write_bytes(plain[:at] + b"\xff" * 64 + plain * 4)
    with pytest.raises(mr.SnapshotError, match=f"byte {at}"[:-3]):
        mr.open(path)


def test_a_callback_may_stop_the_reading(plain: bytes, tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(plain)

    def stop(done: int, _total: int | None) -> None:
        if done > 1 << 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mr.open(path, progress=stop)


def begun(monkeypatch: pytest.MonkeyPatch) -> list[ReadAhead]:
    """Each ReadAhead whose thread begins from here on."""
    found: list[ReadAhead] = []
    begin = ReadAhead._begin

    def noted(self: ReadAhead) -> None:
        found.append(self)
        begin(self)

    monkeypatch.setattr(ReadAhead, "_begin", noted)
    return found


def test_no_thread_where_it_would_not_pay(
    plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: Callable[[], None]
) -> None:
    found = begun(monkeypatch)
    path = tmp_path / "snap.pkl"
    path.write_bytes(plain)
    mr.open(path)
    mr.open(gzip.compress(plain))
    mr.open(plain)  # what is in memory is copied, piece by piece: that too goes on beside
    mr.open(io.BytesIO(plain))
    assert len(found) == 4
    path.write_bytes(build.dump(SnapshotBuilder().build()))
    mr.open(path)  # less than a window
    path.write_bytes(plain)
    monkeypatch.setattr(container, "SLOW_FROM", len(plain) + 1)
    mr.open(path)
    monkeypatch.setattr(container, "SLOW_FROM", 0)
    alone()
    mr.open(path)
    assert len(found) == 4


@pytest.mark.parametrize("kind", ["pickle", "gzip"])
def test_a_pipe_is_read_by_the_caller(
    kind: str, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A read of it may wait for ever, and only the caller's can be interrupted.
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


def test_without_threads_it_reads_as_well(
    plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "snap.pkl"
    path.write_bytes(plain)
    monkeypatch.setattr(threading.Thread, "start", none_left)
    assert mr.open(path).stream_bytes == len(plain)


@pytest.mark.slow
def test_an_interrupt_ends_the_command(tmp_path: Path) -> None:
    # Compressed so that there is far more to read than is read before the signal comes.
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
