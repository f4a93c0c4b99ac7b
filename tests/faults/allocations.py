"""Make the native modules' memory requests fail, one by one, in this process.

This is for a build with sanitizers (`make memory`), which catch invalid reads and writes after a
failed request. For faults in whole programs, see `tests/faults/__main__.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import memreplay._core as core
from tests.faults.faults import spread


@cache
def _native() -> ctypes.CDLL:
    return ctypes.CDLL(core.__file__)


def is_possible() -> bool:
    """Return whether the native modules were built with memory.h."""
    return hasattr(_native(), "memreplay_failing")


def _number(name: str) -> ctypes.c_long:
    return ctypes.c_long.in_dll(_native(), f"memreplay_{name}")


@contextmanager
def failing(at: int = -1, *, on: bool = False) -> Iterator[Callable[[], int]]:
    """Make request number `at` (from 0) fail, and with `on` all later ones too. Yield an object
    that counts the requests.
    """
    asked = _number("asked")
    asked.value, _number("goes_on").value, _number("failing").value = 0, on, at
    try:
        yield lambda: asked.value
    finally:
        _number("failing").value = -1


def outcome(work: Callable[[], object]) -> object:
    """Run the work; return its result or error, without the text of a MemoryError."""
    try:
        return work()
    except MemoryError:
        return MemoryError
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Struck:
    """One failed request and its outcome, `found`."""

    at: int
    on: bool
    found: object

    def __str__(self) -> str:
        return f"request {self.at}{' and all after it' if self.on else ''}"


def struck(prepared: Callable[[], Callable[[], object]], most: int) -> tuple[int, list[Struck]]:
    """Make up to `most` memory requests of some work fail, each by itself and with all later
    requests. Return the number of runs, and those that went wrong. Each run must give the same
    result or a memory error, and the same result again once there is memory. `prepared` creates the
    work; no request fails meanwhile.
    """
    work = prepared()
    with failing() as asked:
        base = outcome(work)
        count = asked()
    wrong = []
    runs = 0
    for at in spread(count, most):
        for on in (False, True):
            work = prepared()
            with failing(at, on=on) as asked:
                found = outcome(work)
                missed = asked() <= at
            runs += 1
            if missed:
                found = "it was not made"
            elif found in (MemoryError, base):
                found = outcome(work)
            if found != base:
                wrong.append(Struck(at, on, found))
    return runs, wrong
