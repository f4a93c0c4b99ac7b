"""Memory that the native modules ask for fails, request by request, in this process.

In a build with sanitizers (`make memory`), which see what is read or written beyond its end after
a request failed, and what is not given back. What other programs are to a fault of the system is in
`tests/faults/__main__.py`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import memreplay._core as core
from memreplay.errors import MemreplayError
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
    """What it says; an error's words where it is one that commands report."""
    try:
        return work()
    except MemoryError:
        return MemoryError
    except MemreplayError as error:
        return f"{type(error).__name__}: {error}"


def again(work: Callable[[], object]) -> object:
    """What it says after it failed once: what it left behind must not look whole."""
    try:
        return outcome(work)
    except Exception as error:
        return error


@dataclass(frozen=True)
class Struck:
    """One request that failed: `found` is what came of it."""

    at: int
    on: bool
    found: object

    def __str__(self) -> str:
        return f"request {self.at}{' and all after it' if self.on else ''}"


def struck(
    prepared: Callable[[], Callable[[], object]], most: int
) -> tuple[int, int, list[Struck]]:
    """How many requests a work makes, how many of these failed (`most` at the most, alone and
    with all that follow), and of those the ones that are wrong: neither the same result nor an
    error of memory; or done again afterwards, with memory, another result. `prepared` makes the
    work, with memory that does not fail."""
    work = prepared()
    with failing() as asked:
        base = outcome(work)
        count = asked()
    wrong = []
    runs = 0
    for at in spread(count, most):
        for on in (False, True):
            work = prepared()
            try:
                with failing(at, on=on):
                    found = outcome(work)
            except Exception as error:
                found = error
            runs += 1
            if found is MemoryError:
                found = again(work)
            if found != base:
                wrong.append(Struck(at, on, found))
    return count, runs, wrong
