"""Processes created by fork, spawn and forkserver get the same results and don't deadlock."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.record import _tracker
from memreplay.io.readahead import ReadAhead
from memreplay.snapshot.once import Once
from tests.threads.asking import answers

PATIENCE_S = 120.0
NAMES = ("facts", "stacks", "usage requested", "usage active", "lives held", "report peak", "slice")

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
# Python warns about forking with threads, which is exactly what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_a_fork(work: Callable[[], Any]) -> None:
    """Run a function in a forked child, which must exit successfully and in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    until = time.monotonic() + PATIENCE_S
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the child waits for ever")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0


def equal(found: Any, expected: Any) -> None:
    assert found == expected


@forks
def test_forked_child_can_query_the_parents_snapshot(file: Path) -> None:
    expected = answers(mr.open(file), NAMES)
    cold, warm = mr.open(file), mr.open(file)
    answers(warm, NAMES)
    for snap in (cold, warm):
        in_a_fork(lambda snap=snap: equal(answers(snap, NAMES), expected))  # type: ignore[misc]
        assert answers(snap, NAMES) == expected


@forks
def test_nested_fork_can_open_files(file: Path) -> None:
    expected = answers(mr.open(file), NAMES)

    def ask() -> None:
        equal(answers(mr.open(file), NAMES), expected)

    def both() -> None:
        ask()
        in_a_fork(ask)
        ask()

    in_a_fork(both)


@forks
def test_child_forked_during_queries_gets_the_same_results(file: Path) -> None:
    """The child recomputes a value that another thread was computing."""
    expected = answers(mr.open(file), NAMES)
    over = threading.Event()
    shared = [mr.open(file)]

    def ask() -> None:
        while not over.is_set():
            shared[0] = mr.open(file)
            answers(shared[0], NAMES[:5])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            snap = shared[0]
            in_a_fork(lambda snap=snap: equal(answers(snap, NAMES[:5]), answers_of(expected)))  # type: ignore[misc]
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE_S)


def answers_of(expected: dict[str, Any]) -> dict[str, Any]:
    return {name: expected[name] for name in NAMES[:5]}


@forks
def test_child_recomputes_a_value_that_was_being_computed() -> None:
    values: Once[str, int] = Once()
    begun, let = threading.Event(), threading.Event()

    def make() -> int:
        begun.set()
        assert let.wait(PATIENCE_S)
        return 1

    thread = threading.Thread(target=values.get, args=("a", make))
    thread.start()
    assert begun.wait(PATIENCE_S)
    try:
        in_a_fork(lambda: equal(values.get("a", lambda: 2), 2))
    finally:
        let.set()
        thread.join(PATIENCE_S)
    assert values.get("a", lambda: 3) == 1


@forks
def test_child_forked_during_readahead_can_open_another_file(file: Path, tmp_path: Path) -> None:
    """The fork happens while a slow file is read ahead. The child doesn't have the read-ahead
    thread, but can open another file.
    """
    path = tmp_path / "pipe"
    os.mkfifo(path)
    expected = answers(mr.open(file), NAMES)

    def fill(view: memoryview) -> int:
        with open(path, "rb") as pipe:
            return pipe.readinto(view)

    ahead = ReadAhead(fill, lambda: None)
    ahead._begin()
    try:
        in_a_fork(lambda: equal(answers(mr.open(file), NAMES), expected))
    finally:
        path.open("wb").close()
        ahead.close()


@forks
def test_forked_child_does_not_continue_a_read(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read-ahead thread exists only in the parent, so the child gets an error. The parent isn't
    affected.
    """
    from memreplay.io import container
    from memreplay.snapshot import snapshot

    monkeypatch.setattr(snapshot, "several_cpus", lambda: True)
    monkeypatch.setattr(container, "SLOW_FROM", 1)
    expected = mr.open(file).replay().peak
    parent, said = os.getpid(), tmp_path / "said"
    children: list[int] = []
    calls: list[int] = []
    path = tmp_path / "large.pkl"
    path.write_bytes(large())

    def fork(_done: int, _total: int | None) -> None:
        calls.append(_done)
        # The first call reports data that was read without the thread.
        if len(calls) == 2 and not children:
            children.append(os.fork())

    try:
        peak = mr.open(path, progress=fork).replay().peak
        assert os.getpid() == parent
        assert peak == mr.open(path).replay().peak
    except RuntimeError as error:
        if os.getpid() == parent:
            raise
        said.write_text(str(error))
    finally:
        if os.getpid() != parent:
            os._exit(0)
    assert children
    os.waitpid(children[0], 0)
    assert said.read_text() == (
        "the process was forked while a snapshot was being read; open it again in the child"
    )
    assert mr.open(file).replay().peak == expected


def large() -> bytes:
    """Return a snapshot that takes several reads."""
    from tests import build

    builder = build.SnapshotBuilder()
    for n in range(60_000):
        builder.alloc(0x1000 + 512 * n, 512)
    return build.dump(builder.build())


@forks
def test_fork_during_allocations_does_not_block() -> None:
    """In a child the tracker's lock is free, and nothing waits for the lock during a fork."""
    _tracker.begin(1 << 20)
    over = threading.Event()

    def allocate(base: int) -> None:
        while not over.is_set():
            for n in range(1, 400):
                _tracker.track_alloc(base + 512 * n)
            for n in range(1, 400):
                _tracker.track_free(base + 512 * n)

    threads = [threading.Thread(target=allocate, args=(i << 32,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()

    def count() -> None:
        before = _tracker.count()
        _tracker.track_alloc(77 << 40)
        # If another thread held the lock at the fork, the child records nothing more.
        assert _tracker.count() in (before + 1, 0)

    try:
        for _ in range(20):
            in_a_fork(count)
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        _tracker.end()


def ask_of(path: str) -> dict[str, Any]:
    """Return the results of all queries (runs in another process)."""
    return answers(mr.open(path), NAMES)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_get_the_same_results_with_every_start_method(file: Path, method: str) -> None:
    expected = answers(mr.open(file), NAMES)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        found = pool.map_async(ask_of, [os.fspath(file)] * 4).get(PATIENCE_S)
    assert found == [expected] * 4
