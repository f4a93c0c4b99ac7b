"""Memory that the native modules ask for fails, request by request, in this process.

In a build with sanitizers (`make memory`), which see what is read or written where it must not be
after a request failed. Faults in whole programs are in `tests/faults/__main__.py`.
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
    """Whether the modules were built with memory.h."""
    return hasattr(_native(), "memreplay_failing")


def _number(name: str) -> ctypes.c_long:
    return ctypes.c_long.in_dll(_native(), f"memreplay_{name}")


@contextmanager
def failing(at: int = -1, *, on: bool = False) -> Iterator[Callable[[], int]]:
    """In here the request number `at` fails (from 0), `on`: and all after it. Yields what says how
    many there were."""
    asked = _number("asked")
    asked.value, _number("goes_on").value, _number("failing").value = 0, on, at
    try:
        yield lambda: asked.value
    finally:
        _number("failing").value = -1


def outcome(work: Callable[[], object]) -> object:
    """What it says, or its error; of one of memory no words."""
    try:
        return work()
    except MemoryError:
        return MemoryError
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Struck:
    """One request that failed: `found` is what came of it."""

    at: int
    on: bool
    found: object

    def __str__(self) -> str:
        return f"request {self.at}{' and all after it' if self.on else ''}"


def struck(prepared: Callable[[], Callable[[], object]], most: int) -> tuple[int, list[Struck]]:
    """Each request that a work makes fails (`most` at the most), alone and with all that follow:
    how many runs that took, and those that are wrong. What comes is to be the same result, or an
    error of memory; done again, with memory, the same result. `prepared` makes the work, with
    memory that does not fail."""
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
