"""Several threads of a recorded program call modules while a recording ends."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from memreplay.engine.record import _calls, _tracker
from tests.threads.asking import THREADS, at_once

ROUNDS = 40


class Module:
    """A fake torch.nn.Module."""

    def plainly(self, *args: Any) -> int:
        _tracker.track_alloc(id(args) & ~0xFF)
        _tracker.track_free(id(args) & ~0xFF)
        return _tracker.depth()


def test_modules_can_run_while_recordings_start_and_stop() -> None:
    """Functions are replaced while other threads call them, but no replacement is called after its
    removal.
    """
    over = threading.Event()
    modules = [Module() for _ in range(8)]
    _calls.begin(Module.plainly, {}, lambda module, args, kwargs: 1)
    _calls.end()

    def begin_and_end(round_: int) -> None:
        _tracker.begin(1 << 20)
        numbers: dict[int, int] = {}

        def found(module: Any, args: Any, kwargs: Any) -> int:
            return int(numbers.setdefault(id(module), 1000 + len(numbers)))

        _calls.begin(Module.plainly, numbers, found)
        for at in range(20):
            numbers.pop(id(modules[at % len(modules)]), None)
            # Read noted() first, because other threads continue between the two calls.
            noted = _tracker.noted()
            assert _tracker.count() >= noted // 2 - round_
            _tracker.joined([], 0)
        _calls.end()
        _tracker.end()

    def record() -> int:
        try:
            for round_ in range(ROUNDS):
                begin_and_end(round_)
        finally:
            over.set()  # set in any case, because the other threads wait for it
        return 0

    def call() -> int:
        called = 0
        while not over.is_set():
            for module in modules:
                assert _calls.call(module, called) >= 0
                called += 1
        return 0

    try:
        at_once([record, *[call] * (THREADS - 1)])
    finally:
        over.set()
        _calls.end()
        _tracker.end()


def test_each_thread_has_its_own_stack_of_modules() -> None:
    _tracker.begin(1 << 20)

    def walk(number: int) -> list[int]:
        seen = []
        for depth in range(1, 60):
            _tracker.enter(number)
            seen.append((_tracker.depth(), _tracker.module()) == (depth, number))
            _tracker.track_alloc((number << 32) + 512 * depth)
        for _ in range(59):
            _tracker.leave(number)
        return [int(all(seen)), _tracker.depth()]

    try:
        found = at_once([partial(walk, n) for n in range(1, THREADS + 1)])
        assert found == [[1, 0]] * THREADS
        assert _tracker.noted() == THREADS * 59
    finally:
        _tracker.end()
