"""sources: URLs and paths, every way to pass bytes, and their errors."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.io.sources import open_source
from tests import build


def pickled() -> bytes:
    return build.dump(build.SnapshotBuilder().alloc(0x1000, 64).build())


# ---- paths, bytes, files -------------------------------------------------------------------------


def test_any_bytes_like_object_is_a_source() -> None:
    data = pickled()
    padded = data + b"." * (-len(data) % 8)
    kinds: list[Any] = [data, bytearray(data), memoryview(data), array("q", padded)]
    for source in kinds:
        raw = open_source(source)
        assert raw.total in (len(data), len(padded))
        assert raw.read(len(data)) == data
        assert mr.open(source).native.n_events == 1


def test_bytes_are_read_in_place() -> None:
    data = memoryview(bytearray(b"0123456789"))
    raw = open_source(data)
    data[9] = ord("x")
    assert raw.read() == b"012345678x"
    assert (raw.seek(-4, os.SEEK_END), raw.read(2), raw.tell()) == (6, b"67", 8)
    assert (raw.seek(-1, os.SEEK_CUR), raw.seek(3), raw.read(1)) == (7, 3, b"3")
    assert (raw.seek(50), raw.read(1), raw.seek(-50, os.SEEK_END)) == (50, b"", 0)


def test_input_is_released_after_reading() -> None:
    data = bytearray(pickled())
    mr.open(data)
    data.clear()  # a memoryview of the bytes would not allow this


def test_multidimensional_and_strided_buffers_are_read() -> None:
    data = pickled()
    table = memoryview(data).cast("B", (len(data), 1))
    for source in (table, memoryview(b"".join(bytes([b, 0]) for b in data))[::2]):
        assert mr.open(source).native.n_events == 1
    with pytest.raises(mr.SnapshotError, match="empty"):
        mr.open(b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is asked of Linux")
@pytest.mark.parametrize("wrap", ["bytes", "bytearray", "memoryview", "io.BytesIO"])
def test_bytes_take_no_more_memory_than_a_file(wrap: str, tmp_path: Path) -> None:
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
    # A snapshot with 64 MB of values under an unknown key, which the reader drops.
    unknown = b"\x8c\x07unknownB" + (1 << 20).to_bytes(4, "little") + bytes(1 << 20)
    path.write_bytes(b"\x80\x04}(" + 64 * unknown + b"u.")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) < 16 << 10  # KiB


def test_object_that_is_not_a_source_is_a_type_error() -> None:
    for source in (None, 7, ["snap.pkl"]):
        with pytest.raises(TypeError, match="a path, a URL, bytes or a binary file, got"):
            open_source(source)  # type: ignore[arg-type]


class Dribbling(io.RawIOBase):
    """A file that returns three bytes at a time."""

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


def test_read_returns_everything_requested() -> None:
    data = bytes(range(100))
    raw = open_source(Dribbling(data))  # type: ignore[arg-type]
    assert raw.read(50) == data[:50]
    assert raw.taken == raw.tell() == 50
    assert raw.read() == data[50:]
    assert (raw.read(5), raw.taken) == (b"", 100)
    assert raw.seek(-3, os.SEEK_END) == 97
    assert raw.read() == data[97:]


def test_non_blocking_source_is_not_at_its_end() -> None:
    taking, giving = os.pipe()
    os.set_blocking(taking, False)
    with open(taking, "rb", buffering=0) as file, pytest.raises(BlockingIOError, match="no data"):
        mr.open(file)
    os.close(giving)
