"""Sixteen threads open separate files, the same file, and bytes that change meanwhile."""

from __future__ import annotations

import gzip
import io
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.snapshot import snapshot
from tests import build
from tests.build import SnapshotBuilder
from tests.threads.asking import PATIENCE_S, THREADS, answers, at_once, told

NAMES = ("facts", "texts", "stacks", "usage requested", "usage active", "report peak", "slice")


@pytest.fixture(scope="module")
def plain(file: Path) -> bytes:
    """Return the uncompressed pickle."""
    return gzip.decompress(file.read_bytes())


def opened(source: Any) -> dict[str, Any]:
    """Open a snapshot and run a few queries."""
    return answers(mr.open(source), NAMES[3:5])


def test_each_thread_has_its_own_file(tmp_path: Path) -> None:
    """With all queries at once, no thread gets results from another thread's file."""
    kinds = ((f"{i}.pkl", i) for i in range(THREADS))
    expected, work = [], []
    for name, i in kinds:
        builder = SnapshotBuilder()
        for n in range(300):
            builder.alloc(0x1000 * (n + 1), 512 * (i + 1), frames=[(f"f{i}", f"{i}.py", n)])
        path = tmp_path / name
        data = build.dump(builder.build(), protocol=2 + i % 4)
        path.write_bytes(gzip.compress(data) if i % 2 else data)
        expected.append((300 * 512 * (i + 1), f"f{i}", f"{i}.py"))

        def ask(path: Path = path) -> tuple[int, str, str]:
            snap = mr.open(path)
            frame = snap.stack(int(snap.events.stack[0]))[0]
            return snap.replay().peak.bytes, frame.function, frame.file

        work.append(ask)
    assert at_once(work) == expected


def test_all_threads_read_the_same_file(file: Path) -> None:
    expected = answers(mr.open(file), NAMES)
    for found in at_once([lambda: answers(mr.open(file), NAMES)] * THREADS):
        assert found == expected


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_all_threads_read_the_same_bytes(plain: bytes, kind: Callable[[bytes], Any]) -> None:
    if kind is memoryview and not getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("CPython counts the views of one memoryview without a lock")
    expected = opened(plain)
    shared = kind(plain)
    # A file object is read from its current position, so each thread has its own file object.
    work = [lambda: opened(io.BytesIO(plain) if kind is io.BytesIO else shared)] * THREADS
    assert at_once(work) == [expected] * THREADS


def test_sharing_one_file_object_gives_a_result_or_an_error(plain: bytes) -> None:
    """Nobody should share a file object between threads, but nothing breaks."""
    shared = io.BytesIO(plain)

    def ask() -> str:
        try:
            return f"{mr.open(shared).replay().peak.bytes}"
        except mr.MemreplayError as error:
            return str(error)

    assert all(at_once([ask] * THREADS))


def test_bytes_that_change_during_the_read_cause_no_crash(plain: bytes) -> None:
    """A private copy is parsed, so each read gives a result or a clear error."""
    shared = bytearray(plain)
    over = threading.Event()

    def change() -> int:
        at = 0
        while not over.is_set():
            at = (at + 7919) % len(shared)
            shared[at] ^= 0x55
        return at

    def ask() -> int:
        for _ in range(8):
            told(lambda: mr.open(shared).replay().measure("active").peak)
            told(lambda: mr.open(shared, salvage=True).replay().peak)
        return 0

    def all_ask() -> int:
        try:
            at_once([ask] * (THREADS - 2))
        finally:
            over.set()
        return 0

    at_once([change, all_ask])


def test_bytes_cannot_shrink_during_the_read(plain: bytes) -> None:
    """The bytearray is locked while it's being read, so resizing it raises BufferError."""
    shared = bytearray(plain)
    refused = []

    def resize(_done: int, _total: int | None) -> None:
        try:
            shared.clear()
        except BufferError:
            refused.append(True)

    assert mr.open(shared, progress=resize).replay().peak == mr.open(plain).replay().peak
    assert refused
    shared.clear()  # released afterwards


class StopError(Exception):
    """Raised by a progress callback to stop reading."""


def test_progress_callback_can_stop_any_read(
    file: Path, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads stop halfway, with and without the read-ahead thread."""
    monkeypatch.setattr(snapshot, "several_cpus", lambda: True)

    def stop(_done: int, _total: int | None) -> None:
        raise StopError

    def ask(source: Any) -> bool:
        with pytest.raises(StopError):
            mr.open(source, progress=stop)
        return mr.open(source).replay().peak.bytes > 0

    work = [partial(ask, source) for source in (file, plain) * (THREADS // 2)]
    assert at_once(work) == [True] * THREADS
    assert [t.name for t in threading.enumerate() if t.name == "memreplay-readahead"] == []


def test_one_thread_queries_while_others_open_and_close(file: Path) -> None:
    """Nothing is shared between snapshots."""
    snap = mr.open(file)
    expected = answers(mr.open(file), NAMES)
    over = threading.Event()

    def come_and_go() -> bool:
        while not over.wait(0):
            mr.open(file).replay().measure("active").series.sum()
        return True

    def ask() -> bool:
        try:
            return all(answers(snap, NAMES) == expected for _ in range(5))
        finally:
            over.set()

    assert at_once([ask, *[come_and_go] * 7]) == [True] * 8
    assert over.wait(PATIENCE_S)
