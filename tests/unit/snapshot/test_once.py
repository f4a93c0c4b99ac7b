"""once: all threads share one value and don't wait for other values; nothing outlives its owner."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memreplay.snapshot import once as module
from memreplay.snapshot.once import Once, once

THREADS = 8
PATIENCE_S = 60.0


class Slow:
    """A value that is computed when the test allows it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()
        self.times = 0

    @once
    def value(self) -> object:
        """A unique object."""
        self.times += 1
        self.begun.set()
        assert self.let.wait(PATIENCE_S)
        return object()

    @once
    def other(self) -> int:
        """Return a value whose computation doesn't depend on the other one."""
        return 7


def asked(thing: Slow) -> tuple[ThreadPoolExecutor, list[Callable[[], object]]]:
    """Start this many threads, which all wait for one object's value."""
    pool = ThreadPoolExecutor(THREADS)
    return pool, [pool.submit(lambda: thing.value).result for _ in range(THREADS)]


def test_all_threads_get_the_same_value() -> None:
    thing = Slow()
    pool, answers = asked(thing)
    with pool:
        assert thing.begun.wait(PATIENCE_S)
        thing.let.set()
        found = {id(answer()) for answer in answers}
    assert found == {id(thing.value)}
    assert thing.times == 1


def test_computing_one_value_does_not_block_another() -> None:
    thing, other = Slow(), Slow()
    other.let.set()
    pool, _ = asked(thing)
    with pool, ThreadPoolExecutor(1) as apart:
        assert thing.begun.wait(PATIENCE_S)
        try:
            assert apart.submit(lambda: thing.other).result(PATIENCE_S) == 7
            assert apart.submit(lambda: other.value).result(PATIENCE_S) is other.value
        finally:
            thing.let.set()


def test_failure_is_retried() -> None:
    class Failing:
        times = 0

        @once
        def value(self) -> int:
            """Fail the first time; return the value later."""
            Failing.times += 1
            if Failing.times == 1:
                raise ValueError("not yet")
            return 3

    thing = Failing()
    with pytest.raises(ValueError, match="not yet"):
        _ = thing.value
    assert thing.value == 3


def test_released_value_is_computed_again() -> None:
    values: Once[str, list[int]] = Once()
    first = values.get("a", list)
    assert values.get("a", list) is first
    assert values.values() == [first]
    values.clear()
    assert values.get("a", list) is not first


def test_no_lock_is_kept() -> None:
    values: Once[int, int] = Once()
    for i in range(100):
        values.get(i, lambda i=i: i)  # type: ignore[misc]
    assert values._making == {}


def test_value_may_be_computed_from_another() -> None:
    values: Once[str, int] = Once()
    assert values.get("a", lambda: values.get("b", lambda: 1) + 1) == 2


def test_lock_held_during_a_fork_does_not_block_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that held the lock during the fork doesn't exist in the child, so it never
    releases it.
    """
    values: Once[str, int] = Once()
    begun, let = threading.Event(), threading.Event()

    def stuck() -> int:
        begun.set()
        assert let.wait(PATIENCE_S)
        return 1

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(values.get, "a", stuck)
        assert begun.wait(PATIENCE_S)
        monkeypatch.setattr(module, "getpid", lambda: os.getpid() + 1)
        try:
            assert pool.submit(values.get, "a", lambda: 2).result(PATIENCE_S) == 2
        finally:
            let.set()
        assert first.result(PATIENCE_S) == 2  # the earlier value
