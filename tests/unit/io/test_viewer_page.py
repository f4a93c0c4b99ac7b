"""viewer_page: the snapshot in a page of PyTorch's viewer reads like the file itself."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.errors import SnapshotError, TruncatedError
from memreplay.io import viewer_page
from memreplay.io.container import open_stream
from memreplay.io.viewer_page import PageSnapshots
from tests import bad_files, build
from tests.bad_files import viewer_page as page
from tests.build import SnapshotBuilder


def pickled(events: int = 300) -> bytes:
    builder = SnapshotBuilder()
    for i in range(events):
        builder.alloc(i * 7919, i * 31, frames=[("f", "a.py", i)])
    return build.dump(builder.build())


def read_all(data: bytes, step: int = 1 << 16) -> bytes:
    """Return everything that a page yields, read in chunks of `step` bytes."""
    source = io.BytesIO(data)
    pages = PageSnapshots(source.readinto)
    room = memoryview(bytearray(step))
    found = b""
    while n := pages.fill(room):
        found += room[:n]
    return found


def test_page_equals_its_snapshot(tmp_path: Path) -> None:
    data = pickled()
    path = tmp_path / "trace_plot.html"
    path.write_bytes(page(data))
    found, want = mr.open(path), mr.open(data)
    assert found.container == "html"
    assert found.file_bytes == len(page(data))
    assert found.stream_bytes == want.stream_bytes == len(data)
    assert found.events.address.tolist() == want.events.address.tolist()
    assert found.replay().peak.bytes == want.replay().peak.bytes > 0


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("trace_plot.html", data)
    return out.getvalue()


@pytest.mark.parametrize(
    "kind, pack",
    [
        ("gzip", gzip.compress),
        ("xz", lzma.compress),
        ("bzip2", bz2.compress),
        ("zip", zipped),
    ],
)
def test_compressed_page_is_read(kind: str, pack: Callable[[bytes], bytes]) -> None:
    snap = mr.open(pack(page(pickled())))
    assert snap.container == f"html in {kind}"
    assert snap.native.n_events == 300


@pytest.mark.parametrize("length", range(8))
@pytest.mark.parametrize("step", [1, 2, 3, 5, 1 << 16])
def test_snapshot_of_any_length_is_read_in_chunks_of_any_size(length: int, step: int) -> None:
    data = bytes(range(250, 250 + length)) if length < 6 else b"\xff\0" * length
    padded = data + b"\0" * (3 - len(data) % 3)
    assert read_all(page(data), step) == padded


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 300), st.integers(1, 40))
def test_chunks_may_split_the_marker_and_the_base64(data: bytes, ahead: int, piece: int) -> None:
    # The marker and the letters are cut at every chunk boundary.
    text = b"<html>" + b" " * ahead + page(data)
    source = io.BytesIO(text)
    pages = PageSnapshots(source.readinto)
    pages._piece = memoryview(bytearray(piece))
    room, found = memoryview(bytearray(64)), b""
    while n := pages.fill(room):
        found += room[:n]
    assert found == data + b"\0" * (3 - len(data) % 3)


@pytest.mark.parametrize(
    "before, after",
    [
        ('<html>{"base64": "', '"}'),
        ("<HTML><script>f({name: 'a', base64: '", "'})</script>"),
        ("<!doctype html>\n[{'base64' :\n '", "', 'name': 'a'}]"),
        ("\ufeff<!-- saved --> <!DOCTYPE HTML>" + "x" * 100_000 + '"base64":"', '"'),
    ],
)
def test_marker_is_found_in_every_spelling(before: str, after: str) -> None:
    data = pickled()
    for letters in (
        base64.b64encode(data).decode(),
        base64.b64encode(data).decode().replace("/", "\\/"),
        base64.encodebytes(data).decode(),
    ):
        assert read_all((before + letters + after).encode()) == data
        assert mr.open((before + letters + after).encode()).native.n_events == 300


@pytest.mark.parametrize(
    "letters",
    ["gA", "gASV=gAS", "gA==gASV", "gASV====", "=", "gA=V", "gA-_", "gASé", "g\0AS", "<b>x</b>"],
)
def test_damaged_base64_is_an_error(letters: str) -> None:
    if letters == "gA":
        letters = "gAS"  # base64 can't have this length
    with pytest.raises(SnapshotError, match=r"damaged base64 in the page \(byte \d+"):
        read_all(f'<html>"base64":"{letters}"'.encode())
    with pytest.raises(SnapshotError, match="damaged base64"):
        mr.open(f'<html>"base64":"{letters}"'.encode())


@pytest.mark.parametrize(
    "text",
    [
        "<html>",
        "<!DOCTYPE html><html><body>a log</body></html>",
        pytest.param("<html>" + "base64 " * 50_000, id="many marks"),
        '<html>{"base64": 5, "encoding": "base64"} mybase64: "gASV"',
        '<html>{"base64": ""}',
        '<html>{"base64"' + " " * 1_000 + ': "gASV"}',
    ],
)
def test_page_without_a_snapshot_is_an_error(text: str) -> None:
    with pytest.raises(SnapshotError) as error:
        mr.open(text.encode())
    assert "but an HTML page without a snapshot in it; download the file itself" in str(error.value)


def test_memreplays_own_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "view.html"
    mr.view(mr.open(pickled())).save(path)
    with pytest.raises(SnapshotError, match="memreplay; open it in a browser, or pass"):
        mr.open(path)


def test_page_with_other_content_is_an_error() -> None:
    with pytest.raises(SnapshotError, match="a PNG picture"):
        mr.open(page(b"\x89PNG\r\n\x1a\n" + bytes(100)))
    with pytest.raises(mr.UnsafePickleError):
        mr.open(page(bad_files.calls_function()))
    with pytest.raises(SnapshotError, match="wrapped more than 2 times"):
        mr.open(page(gzip.compress(page(pickled()))))


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_truncated_page_can_be_salvaged(keep: float) -> None:
    data = page(pickled(3_000))
    cut = data[: int(len(data) * keep)]
    with pytest.raises(TruncatedError, match=r"the page ends inside its snapshot \(byte \d+"):
        mr.open(cut)
    snap = mr.open(cut, salvage=True)
    assert snap.truncation is not None
    assert 0 < snap.native.n_events < 3_000


def most_held(pages: PageSnapshots, room: memoryview) -> int:
    """Return the maximum of the bytes held at once while reading a page that ends in an error."""
    most = 0
    try:
        while pages.fill(room):
            most = max(most, len(pages._text), len(pages._out), len(pages._letters))
    except SnapshotError:
        return most
    raise AssertionError("the page has an end")


def test_memory_holds_one_chunk_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # A page of 20 MiB without a snapshot, and one whose base64 never ends, are read in chunks.
    for start, endless in ((b"<html>", b"base64 "), (b'<html>"base64":"', b"AAAA")):
        left = 20 << 20

        def fill(view: memoryview, endless: bytes = endless) -> int:
            nonlocal left
            n = min(len(view), left) // len(endless) * len(endless)
            view[:n] = endless * (n // len(endless))
            left -= n
            return n

        pages = PageSnapshots(fill)
        pages._text = start
        room = memoryview(bytearray(1 << 20))
        assert most_held(pages, room) <= viewer_page.PIECE
        assert left < 8


def test_several_files_are_read_in_order() -> None:
    first, second = pickled(3), pickled(4)
    found = read_all(page(first, second))
    assert found.startswith(first)
    assert found.rstrip(b"\0").endswith(second.rstrip(b"\0"))
    assert len(found) < len(first) + len(second) + 7


def test_names_and_other_text_do_not_matter() -> None:
    text = page(pickled()).replace(b"snapshot.pickle", json.dumps('"base64"').encode()[1:-1])
    assert mr.open(text).native.n_events == 300


def test_page_is_recognized_without_seeking() -> None:
    stream = open_stream(page(pickled(10)))
    assert stream.kind == "html"
    assert stream.head[:2] == b"\x80\x04"
    stream.close()
