"""once: one value for all threads, no waiting for others' values, and none for who is gone."""

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
    """Makes its value when somebody lets it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let = threading.Event()
        self.times = 0

    @once
    def value(self) -> object:
        """Something that is no other."""
        self.times += 1
        self.begun.set()
        assert self.let.wait(PATIENCE_S)
        return object()

    @once
    def other(self) -> int:
        """Made without the value."""
        return 7


def asked(thing: Slow) -> tuple[ThreadPoolExecutor, list[Callable[[], object]]]:
    """So many threads that wait for the value of one thing."""
    pool = ThreadPoolExecutor(THREADS)
    return pool, [pool.submit(lambda: thing.value).result for _ in range(THREADS)]


def test_all_threads_get_the_same() -> None:
    thing = Slow()
    pool, answers = asked(thing)
    with pool:
        assert thing.begun.wait(PATIENCE_S)
        thing.let.set()
        found = {id(answer()) for answer in answers}
    assert found == {id(thing.value)}
    assert thing.times == 1


def test_nobody_waits_for_another_value() -> None:
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


def test_a_failure_is_tried_again() -> None:
    class Failing:
        times = 0

        @once
        def value(self) -> int:
            """Not the first time."""
            Failing.times += 1
            if Failing.times == 1:
                raise ValueError("not yet")
            return 3

    thing = Failing()
    with pytest.raises(ValueError, match="not yet"):
        _ = thing.value
    assert thing.value == 3


def test_what_was_let_go_is_made_anew() -> None:
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


def test_a_value_may_be_made_of_another() -> None:
    values: Once[str, int] = Once()
    assert values.get("a", lambda: values.get("b", lambda: 1) + 1) == 2


def test_a_lock_of_another_process_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who held it when this one was forked is not here, and never lets go."""
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
        assert first.result(PATIENCE_S) == 2  # what was there first
