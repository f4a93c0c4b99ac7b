"""Threads that call the tracker, and an autograd that answers what it asks PyTorch."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from memreplay.engine.record import _tracker
from tests.oracle_recording import Kind, Node, Program

# A node is returned by a place that the caller gives: where that is an argument like any other, a
# function of Python can be called for it.
NODES = platform.machine() in ("x86_64", "AMD64")
THREADS = ("main", "autograd", "loader")
PLACES = 4  # in memory that nodes lie in: that of one that is gone is used again
SEQUENCE_AT = 3  # of the words of a node, its number
SHARES = 7  # that others have of each node

_Found = TypeVar("_Found")
_workers = {name: ThreadPoolExecutor(1) for name in THREADS[1:]}


def in_thread(name: str, call: Callable[..., _Found], *args: Any) -> _Found:
    """Calls it in this thread, and waits."""
    return call(*args) if name == "main" else _workers[name].submit(call, *args).result()


class Autograd:
    """Backward passes, nodes and their numbers, as the tracker may ask for them."""

    def __init__(self, *, shared: bool) -> None:
        self.tasks = dict.fromkeys(THREADS, -1)
        self.running: dict[str, int | None] = dict.fromkeys(THREADS)  # a place
        self.nodes: dict[int, Node] = {}
        self.current = "main"
        self.sequence = 100
        self.shared = shared
        self.words = [(ctypes.c_uint64 * 8)() for _ in range(PLACES)]
        self.shares = [(ctypes.c_uint64 * 2)(0, SHARES) for _ in range(PLACES)]
        self._task = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: self.tasks[self.current])
        self._sequence = ctypes.CFUNCTYPE(ctypes.c_uint64)(lambda: self.sequence)
        self._node = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t)(self._asked)
        for words in self.words:
            words[1] = SHARES

    def _asked(self, out: int) -> int:
        place = self.running[self.current]
        found = (ctypes.c_uint64 * 3).from_address(out)
        if place is None:
            found[0] = found[1] = 0
        else:
            found[0] = ctypes.addressof(self.words[place])
            found[1] = ctypes.addressof(self.shares[place])
            (self.shares if self.shared else self.words)[place][1] += 1
        return out

    def use(self) -> None:
        task, sequence, node = (
            ctypes.cast(function, ctypes.c_void_p).value or 0
            for function in (self._task, self._sequence, self._node)
        )
        _tracker.use_torch(task, sequence, node if NODES else 0, self.shared, SEQUENCE_AT * 8)

    def make_node(self, place: int, module: int) -> None:
        """A new one at this place in memory, where another may have been."""
        self.nodes[place] = Node(module)
        self.words[place][SEQUENCE_AT] = self.sequence
        self.sequence += 1

    def gave_back(self) -> bool:
        """Whether every share of a node that was handed out was given back."""
        return all(words[1] == SHARES for words in (*self.words, *self.shares))


class World:
    """One program that runs twice: natively, and in the oracle."""

    def __init__(self, *, shared: bool = False) -> None:
        self.autograd = Autograd(shared=shared)
        self.autograd.use()
        _tracker.begin(1 << 62)
        self.program = Program()
        self.slow = False  # whether a time is not sure

    def close(self) -> None:
        _tracker.end()
        _tracker.use_torch(0, 0, 0, False, 0)

    def native(self, name: str, call: Callable[..., _Found], *args: Any) -> _Found:
        self.autograd.current = name
        return in_thread(name, call, *args)

    def told(self, category: str) -> int:
        return _tracker.CATEGORIES.index(category)

    # --- where it is ------------------------------------------------------------------------------

    def enter(self, name: str, module: int) -> None:
        self.native(name, _tracker.enter, module)
        self.program.enter(name, module)

    def leave(self, name: str, module: int) -> None:
        self.native(name, _tracker.leave, module)
        self.program.leave(name, module)

    def recompute(self, name: str, begins: bool) -> None:
        self.native(name, _tracker.recompute, begins)
        self.program.recompute(name, begins=begins)

    def optimize(self, name: str, begins: bool) -> None:
        self.native(name, _tracker.optimize, begins)
        self.program.optimize(name, begins=begins)

    def evaluate(self, name: str, steps: int) -> None:
        was = self.native(name, _tracker.evaluate, steps)
        assert was == self.program.evaluate(name, steps)

    def give(self, name: str, category: str) -> str:
        was = self.native(name, _tracker.give, self.told(category) if category else 0)
        thread = self.program.thread(name)
        assert _tracker.CATEGORIES[was] == thread.given
        before, thread.given = thread.given, category
        return before

    def step(self) -> None:
        self.native("main", _tracker.step)
        self.program.step()

    def resume(self) -> None:
        self.native("main", _tracker.resume)
        self.program.resume("main")

    def backward(self, name: str, task: int) -> None:
        """This thread is in this backward pass from now on; -1: in none."""
        self.autograd.tasks[name] = self.program.thread(name).backward = task

    def run(self, name: str, place: int | None) -> None:
        """The node at this place runs in it from now on."""
        self.autograd.running[name] = place
        node = self.autograd.nodes[place] if NODES and place is not None else None
        self.program.thread(name).node = node

    def node(self, place: int) -> None:
        """The main thread makes a node."""
        self.autograd.make_node(place, self.program.making)
        self.program.nodes += 1

    # --- what it allocates ------------------------------------------------------------------------

    def taken(self, name: str, address: int) -> tuple[Any, int]:
        """The allocation, and a time right after it."""
        before = time.time_ns() // 1000
        self.native(name, _tracker.taken, address)
        after = time.time_ns() // 1000
        self.slow |= after - before > 20_000
        return self.program.taken(name, address, before), after

    def let_go(self, name: str, address: int) -> None:
        self.native(name, _tracker.let_go, address)
        self.program.let_go(name, address)

    def mark(self, address: int, category: str, module: int) -> None:
        self.native("main", _tracker.mark, address, self.told(category), module)
        self.program.tell(address, category, module)

    # --- what it was ------------------------------------------------------------------------------

    def joined(
        self, name: str, traces: list[list[dict[str, Any]]], sure: int
    ) -> tuple[list[list[Kind | None]], dict[int, Kind]]:
        """As the oracle says it."""
        return read(*self.native(name, _tracker.joined, traces, sure))


def read(
    kinds: bytes, columns: list[bytes], addresses: bytes, of_addresses: bytes
) -> tuple[list[list[Kind | None]], dict[int, Kind]]:
    """What `joined` hands out, in words."""
    rows = np.frombuffer(kinds, "u4").reshape(-1, 3).tolist()
    known = [
        None,
        *(Kind(_tracker.CATEGORIES[c], _tracker.PHASES[p], module) for c, p, module in rows),
    ]
    before: dict[int, Kind] = {}
    for address, kind in zip(
        np.frombuffer(addresses, "u8").tolist(),
        np.frombuffer(of_addresses, "u4").tolist(),
        strict=True,
    ):
        assert address not in before
        found = known[kind]
        assert found is not None
        before[address] = found
    return [[known[i] for i in np.frombuffer(column, "u4").tolist()] for column in columns], before
