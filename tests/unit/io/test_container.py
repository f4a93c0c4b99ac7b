"""Containers: recognizing them by content rather than by name, every way to pass a snapshot, and
damage.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import sys
import threading
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import memreplay as mr
from memreplay.io import container
from memreplay.io.container import FOREIGN, open_stream
from tests import bad_files, build
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
def test_container_is_detected_by_content_not_by_name(kind: str, tmp_path: Path) -> None:
    plain = pickled()
    data = PACKERS[kind](plain)
    path = tmp_path / "snapshot.txt"
    path.write_bytes(data)
    for source in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        snap = mr.open(source)
        assert snap.native.n_events == 300
        assert (snap.container, snap.stream_bytes) == (kind, len(plain))


@pytest.mark.parametrize("kind", PACKERS)
def test_positions_count_bytes_of_the_packed_input(kind: str, tmp_path: Path) -> None:
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


def test_concatenated_members_read_as_one_stream() -> None:
    data = pickled()
    half = len(data) // 2
    for pack in (gzip.compress, zstd, lzma.compress, bz2.compress):
        assert mr.open(pack(data[:half]) + pack(data[half:])).native.n_events == 300


@pytest.mark.slow
def test_input_may_be_larger_than_a_window() -> None:
    data = pickled(40_000)
    assert len(data) > 2 << 20
    for pack in PACKERS.values():
        assert mr.open(pack(data)).native.n_events == 40_000


# ---- sources -------------------------------------------------------------------------------------


class OnlyRead:
    """A binary source that only has read()."""

    def __init__(self, data: bytes, most: int) -> None:
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, n: int) -> bytes:
        return self._file.read(min(n, self._most))


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("most", [1, 1000])
def test_source_needs_only_a_read_method(kind: str, most: int) -> None:
    source: Any = OnlyRead(PACKERS[kind](pickled()), most)
    snap = mr.open(source)
    assert snap.native.n_events == 300
    assert (snap.file, snap.file_bytes) == ("<stream>", None)


@pytest.mark.parametrize("kind", PACKERS)
def test_pipe_is_read_to_its_end(kind: str) -> None:
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
def test_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    # A daemon, because it waits forever if nobody opens the other end.
    writer = threading.Thread(target=path.write_bytes, args=(pickled(),), daemon=True)
    writer.start()
    snap = mr.open(path)
    writer.join(10)
    assert (snap.native.n_events, snap.file_bytes) == (300, None)


def test_only_the_opener_closes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_bytes(gzip.compress(pickled()))
    with path.open("rb") as file:
        mr.open(file)
        assert not file.closed
    with path.open("rb", buffering=0) as raw:
        assert mr.open(raw).native.n_events == 300
        assert not raw.closed


def test_text_mode_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snap.pkl"
    path.write_text("text", encoding="utf-8")
    with path.open(encoding="utf-8") as file, pytest.raises(TypeError, match="mode 'rb'"):
        mr.open(file)  # type: ignore[arg-type]


def test_path_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        mr.open(tmp_path / "nothing.pkl")
    with pytest.raises(IsADirectoryError):
        mr.open(tmp_path)


# ---- other kinds of file -------------------------------------------------------------------------


@pytest.mark.parametrize("magic, what, hint", FOREIGN)
def test_foreign_file_is_named_with_advice(magic: bytes, what: str, hint: str) -> None:
    for data in (magic, magic + bytes(100)):
        with pytest.raises(mr.SnapshotError) as caught:
            mr.open(data)
        assert str(caught.value) == f"{what} (byte 0); {hint}"


def test_empty_file_is_an_error() -> None:
    with pytest.raises(mr.SnapshotError, match="the file is empty"):
        mr.open(b"")
    with pytest.raises(mr.TruncatedError):
        mr.open(gzip.compress(b""))


# ---- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
@pytest.mark.parametrize("keep", [0.05, 0.3, 0.6, 0.95])
def test_truncated_compressed_file_is_an_error(kind: str, keep: float) -> None:
    data = PACKERS[kind](pickled(3_000))
    with pytest.raises(mr.TruncatedError, match="truncated"):
        mr.open(data[: int(len(data) * keep)])


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_every_prefix_of_a_short_file_is_an_error(kind: str) -> None:
    data = PACKERS[kind](pickled(3))
    for n in range(5, len(data) - 8):
        with pytest.raises(mr.SnapshotError):
            mr.open(data[:n])


def test_truncation_error_says_how_much_was_read() -> None:
    data = gzip.compress(pickled(3_000))
    with pytest.raises(
        mr.TruncatedError, match=r"gzip stream after \d+ compressed bytes"
    ) as caught:
        mr.open(data[: len(data) // 2])
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_zeroed_bytes_are_an_error(kind: str) -> None:
    data = bytearray(PACKERS[kind](pickled(3_000)))
    for at in (len(data) // 4, len(data) // 2):
        broken = bytearray(data)
        broken[at : at + 30] = bytes(30)
        with pytest.raises(mr.SnapshotError):
            mr.open(broken)


def test_wrong_checksum_is_an_error() -> None:
    data = bytearray(gzip.compress(pickled()))
    data[-6] ^= 0xFF
    with pytest.raises(mr.SnapshotError, match="damaged gzip stream after"):
        mr.open(data)


def test_missing_zstandard_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zstd(pickled())
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(mr.MissingExtraError, match=r"\(the extra 'zst'\)"):
        mr.open(data)
    assert mr.open(gzip.compress(pickled())).native.n_events == 300


# ---- zip archives, and double wrapping -----------------------------------------------------------


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return out.getvalue()


def deflated(data: bytes) -> bytes:
    return zipped(("snap.pkl", data))


def stored(data: bytes) -> bytes:
    return zipped(("snap.pkl", data), method=zipfile.ZIP_STORED)


# kind: the name of the compression.
FORMS: dict[str, Callable[[bytes], bytes]] = {
    **{kind: pack for kind, pack in PACKERS.items() if kind != "pickle"},
    "zip": deflated,
    "zip, stored": stored,
    "gzip in zip": lambda data: deflated(gzip.compress(data)),
    "xz in gzip": lambda data: gzip.compress(lzma.compress(data)),
    "gzip in gzip": lambda data: gzip.compress(gzip.compress(data)),
}


class Dribbling:
    """A seekable source that returns a few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)
        self.seek, self.tell, self.seekable = (
            self._file.seek,
            self._file.tell,
            self._file.seekable,
        )

    def read(self, n: int) -> bytes:
        return self._file.read(min(n, 7))


@pytest.mark.parametrize("form", FORMS)
def test_every_format_matches_the_plain_file(form: str, tmp_path: Path) -> None:
    plain = pickled()
    data = FORMS[form](plain)
    path = tmp_path / "snap"
    path.write_bytes(data)
    dribbling: Any = Dribbling(data)
    twin = mr.open(plain).events
    for source in (path, data, io.BytesIO(data), dribbling):
        snap = mr.open(source)
        assert (snap.container, snap.stream_bytes) == (form.partition(",")[0], len(plain))
        for name in ("address", "size", "action", "time_us", "stack", "stream"):
            assert np.array_equal(getattr(snap.events, name), getattr(twin, name)), name


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_progress_counts_bytes_of_the_file(form: str) -> None:
    data = FORMS[form](pickled(30_000))
    told: list[tuple[int, int | None]] = []
    mr.open(data, progress=lambda done, total: told.append((done, total)))
    done = [position for position, _ in told]
    assert done == sorted(done)
    assert done[0] > 0
    assert len(data) - 120 < done[-1] <= len(data)  # a zip's table remains after its file
    assert {total for _, total in told} == {len(data)}


@pytest.mark.parametrize("form", FORMS)
def test_file_truncated_at_any_byte_is_an_error(form: str) -> None:
    data = FORMS[form](pickled(40))
    for n in range(len(data)):
        with pytest.raises(mr.SnapshotError) as caught:
            mr.open(data[:n])
        if n >= 12:
            assert isinstance(caught.value, mr.TruncatedError), (n, caught.value)


@pytest.mark.parametrize("form", FORMS)
def test_damage_at_any_byte_gives_an_error_or_the_snapshot(form: str) -> None:
    data = FORMS[form](pickled(40))
    rng = random.Random(form)
    broken = []
    for at in range(len(data)):
        byte = rng.choice([0, 0xFF, data[at] ^ 1, data[at] ^ 0x80])
        broken.append(data[:at] + bytes([byte]) + data[at + 1 :])
    for _ in range(200):
        at = rng.randrange(len(data))
        broken.append(data[:at] + rng.randbytes(rng.randrange(40)) + data[at + 40 :])
    for one in broken:
        with suppress(mr.SnapshotError):  # damage to a name or a time is harmless
            mr.open(one)


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_wrong_checksum_after_a_full_window(kind: str) -> None:
    """The reader has all data before the checksum is reached, but a wrong checksum is still an
    error.
    """
    window = 1 << 20
    rest = len(build.dump({"segments": [], "padding": "x" * 70_000})) - 70_000
    plain = build.dump({"segments": [], "padding": "x" * (window - rest)})
    assert len(plain) == window
    data = PACKERS[kind](plain)
    assert mr.open(data).stream_bytes == window
    with pytest.raises(mr.TruncatedError):
        mr.open(data[:-1])


def test_many_small_members_need_no_recursion() -> None:
    data = pickled()
    members = b"".join(gzip.compress(data[i : i + 16]) for i in range(0, len(data), 16))
    assert len(data) // 16 > sys.getrecursionlimit()
    assert mr.open(members).native.n_events == 300


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bzip2"])
def test_only_zeros_may_follow_the_last_member(kind: str) -> None:
    data = PACKERS[kind](pickled())
    assert mr.open(data + bytes(100_000)).native.n_events == 300
    with pytest.raises(mr.SnapshotError, match=f"damaged {kind} stream after {len(data) + 100} "):
        mr.open(data + b"garbage..." * 10)


WHOLE = r"cut off: copy .* again, or read the intact part \(300 events\) with --salvage$"


def test_truncation_error_says_if_the_snapshot_is_complete() -> None:
    with pytest.raises(mr.TruncatedError, match=r"the file was cut off; copy or write it again$"):
        mr.open(gzip.compress(pickled())[:20])
    with pytest.raises(mr.TruncatedError, match=rf"^truncated gzip stream .* bytes; .*{WHOLE}"):
        mr.open(gzip.compress(pickled())[:-3])


def test_truncation_after_the_last_full_window_is_an_error() -> None:
    cut = gzip.compress(pickled().ljust(1 << 20))[:-3]  # the cut is found only after the window
    with pytest.raises(mr.TruncatedError, match=WHOLE):
        mr.open(cut)
    snap = mr.open(cut, salvage=True)
    assert snap.native.n_events == 300
    assert str(snap.truncation).startswith("truncated gzip stream")


def test_skippable_zstd_frames_are_skipped() -> None:
    skip = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    data = pickled()
    assert mr.open(skip + zstd(data[:99]) + skip + zstd(data[99:]) + skip).native.n_events == 300


def test_standard_librarys_zstd_is_used_without_zstandard(monkeypatch: pytest.MonkeyPatch) -> None:
    zstandard = pytest.importorskip("zstandard")
    data = zstd(pickled())
    standard = ModuleType("compression.zstd")
    vars(standard)["ZstdError"] = zstandard.ZstdError
    vars(standard)["ZstdDecompressor"] = lambda: container._Zstandard(
        zstandard.ZstdDecompressor().decompressobj()
    )
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", standard)
    assert mr.open(data).native.n_events == 300
    with pytest.raises(mr.TruncatedError, match="truncated zstd"):
        mr.open(data[:-3])


def test_zstd_stream_with_a_huge_window_is_refused() -> None:
    zstandard = pytest.importorskip("zstandard")
    long = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=long).compressobj()
    data = packer.compress(pickled()) + packer.flush()
    with pytest.raises(mr.SnapshotError, match=r"zstd stream needs too much memory: .*unpack it"):
        mr.open(data)


def test_zip_must_contain_exactly_one_file() -> None:
    files = [(f"{i}.pkl", b"") for i in range(7)]
    with pytest.raises(mr.SnapshotError, match=r"has 2 files instead of one: 0\.pkl, 1\.pkl;"):
        mr.open(zipped(*files[:2]))
    with pytest.raises(mr.SnapshotError, match=r"has 7 files.*: 0.*, 4\.pkl, …; unpack it"):
        mr.open(zipped(*files))
    for empty in (zipped(), zipped(("folder/", b""))):
        with pytest.raises(mr.SnapshotError, match="the zip archive is empty"):
            mr.open(empty)


def test_files_that_macos_adds_to_a_zip_do_not_count() -> None:
    data = zipped(("run/", b""), ("run/snap.pkl", pickled()), ("__MACOSX/run/._snap.pkl", b"1"))
    assert mr.open(data).native.n_events == 300


def test_checkpoints_are_recognized() -> None:
    checkpoint = zipped(
        ("model/data.pkl", bad_files.calls_function()),
        ("model/data/0", b"1"),
        ("model/version", b"3"),
    )
    pipe: Any = OnlyRead(checkpoint, 1000)
    for source in (checkpoint, checkpoint[:100], checkpoint[:-10], pipe):
        with pytest.raises(mr.SnapshotError, match=r"as torch\.save writes") as caught:
            mr.open(source)
        assert not isinstance(caught.value, mr.TruncatedError)


def test_encrypted_or_lzma_zip_is_refused() -> None:
    locked = bytearray(deflated(pickled()))
    for at in (6, locked.rindex(b"PK\x01\x02") + 8):  # the flags in both headers
        locked[at] |= 1
    with pytest.raises(mr.SnapshotError, match=r"snap\.pkl in the zip archive is encrypted"):
        mr.open(locked)
    with pytest.raises(mr.SnapshotError, match="uses zip compression method 14"):
        mr.open(zipped(("snap.pkl", pickled()), method=zipfile.ZIP_LZMA))


def test_names_in_a_zip_are_cut_and_escaped() -> None:
    name = "\x1b[31m\n" + "x" * 50_000
    locked = bytearray(zipped((name, pickled())))
    for at in (6, locked.rindex(b"PK\x01\x02") + 8):
        locked[at] |= 1
    disagrees = bytearray(zipped((name, pickled())))
    disagrees[40] ^= 1
    lzma_inside = zipped((name, pickled()), method=zipfile.ZIP_LZMA)
    several = zipped(*((f"{name}{i}", b"") for i in range(9)))
    for data in (locked, disagrees, lzma_inside, several):
        with pytest.raises(mr.SnapshotError) as caught:
            mr.open(data)
        text = str(caught.value)
        assert text.isprintable()
        assert len(text) < 1000


def test_zip_needs_a_seekable_source() -> None:
    pipe: Any = OnlyRead(deflated(pickled()), 1000)
    with pytest.raises(mr.SnapshotError, match=r"cannot be read from a pipe: .*save it as a file"):
        mr.open(pipe)
    with pytest.raises(mr.SnapshotError, match="cannot be read inside gzip"):
        mr.open(gzip.compress(deflated(pickled())))


def test_zip_without_its_central_directory_is_truncated() -> None:
    with pytest.raises(mr.TruncatedError, match="its central directory"):
        mr.open(deflated(pickled())[:-30])


def test_more_than_two_layers_of_compression_are_refused() -> None:
    data = deflated(gzip.compress(lzma.compress(pickled())))
    with pytest.raises(mr.SnapshotError, match="more than 2 times: xz in gzip in zip; unpack it"):
        mr.open(data)


def test_foreign_files_are_recognized_inside_containers() -> None:
    with pytest.raises(mr.SnapshotError, match="a PNG picture"):
        mr.open(gzip.compress(b"\x89PNG\r\n\x1a\n" + bytes(50)))
    tar = bytearray(1024)
    tar[257:262] = b"ustar"
    with pytest.raises(mr.SnapshotError, match=r"tar archives are not supported.*unpack it first"):
        mr.open(gzip.compress(tar))


# ---- bombs ---------------------------------------------------------------------------------------

BOMBS: dict[str, Callable[[bytes], bytes]] = {
    **FORMS,
    # Zeros after a member are skipped, so the outer layer is the bomb.
    "padding": lambda data: gzip.compress(gzip.compress(b"") + bytes(len(data))),
}


@pytest.mark.parametrize("form", BOMBS)
def test_decompression_bomb_exceeds_the_ratio_limit(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "zip, stored":
        return
    monkeypatch.setattr(container, "BOMB_FROM", 1 << 20)
    data = BOMBS[form](b"\x80\x04X" + (1 << 24).to_bytes(4, "little") + bytes(1 << 24))
    with pytest.raises(
        mr.LimitError, match=r"decompression_ratio.*of 250: .* decompressed \d+ bytes to"
    ):
        mr.open(data)


def test_decompression_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(pickled(40_000))
    assert mr.open(data, limits=mr.Limits(decompression_ratio=1)).native.n_events == 40_000
    monkeypatch.setattr(container, "BOMB_FROM", 1 << 20)
    with pytest.raises(mr.LimitError, match="decompression_ratio is over the limit of 1"):
        mr.open(data, limits=mr.Limits(decompression_ratio=1))
    assert mr.open(data).native.n_events == 40_000


def test_bomb_takes_little_memory() -> None:
    """Each call of a decoder returns a limited amount of data."""
    bomb = gzip.compress(bytes(1 << 24))
    decoder = container._Gzip()
    assert len(decoder.decompress(bomb, 1000)) == 1000
    assert not decoder.needs_input
