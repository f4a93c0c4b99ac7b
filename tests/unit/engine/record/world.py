"""Threads that call the tracker, and a fake autograd that answers its questions."""

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

# A node is returned through a pointer that the caller passes. If the pointer is an ordinary
# argument, a Python function can stand in for the native one.
NODES = platform.machine() in ("x86_64", "AMD64")
THREADS = ("main", "autograd", "loader")
PLACES = 4  # places in memory for nodes; a deleted node's place is reused
SEQUENCE_AT = 3  # the word of a node in which its number is stored
SHARES = 7  # references to each node that others hold

_Found = TypeVar("_Found")
_workers = {name: ThreadPoolExecutor(1) for name in THREADS[1:]}


def in_thread(name: str, call: Callable[..., _Found], *args: Any) -> _Found:
    """Call a function in this thread, and wait until it returns."""
    return call(*args) if name == "main" else _workers[name].submit(call, *args).result()


class Autograd:
    """The backward passes, nodes and node numbers that the tracker asks for."""

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
        """Return a new node at this address, which an earlier node may have used."""
        self.nodes[place] = Node(module)
        self.words[place][SEQUENCE_AT] = self.sequence
        self.sequence += 1

    def gave_back(self) -> bool:
        """Return whether every borrowed reference was given back."""
        return all(words[1] == SHARES for words in (*self.words, *self.shares))


class World:
    """A program that runs twice: natively and in the oracle."""

    def __init__(self, *, shared: bool = False) -> None:
        self.autograd = Autograd(shared=shared)
        self.autograd.use()
        _tracker.begin(1 << 62)
        self.program = Program()
        self.slow = False  # whether a time is uncertain

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
        """Put this thread into this backward pass from now on; -1 means none."""
        self.autograd.tasks[name] = self.program.thread(name).backward = task

    def run(self, name: str, place: int | None) -> None:
        """Run the node at this address in this thread from now on."""
        self.autograd.running[name] = place
        node = self.autograd.nodes[place] if NODES and place is not None else None
        self.program.thread(name).node = node

    def node(self, place: int) -> None:
        """Create a node in the main thread."""
        self.autograd.make_node(place, self.program.making)
        self.program.nodes += 1

    # --- what it allocates ------------------------------------------------------------------------

    def taken(self, name: str, address: int) -> tuple[Any, int]:
        """Return the allocation, and a time right after it."""
        before = time.time_ns() // 1000
        self.native(name, _tracker.track_alloc, address)
        after = time.time_ns() // 1000
        self.slow |= after - before > 20_000
        return self.program.taken(name, address, before), after

    def let_go(self, name: str, address: int) -> None:
        self.native(name, _tracker.track_free, address)
        self.program.let_go(name, address)

    def mark(self, address: int, category: str, module: int) -> None:
        self.native("main", _tracker.mark, address, self.told(category), module)
        self.program.tell(address, category, module)

    # --- what it was ------------------------------------------------------------------------------

    def joined(
        self, name: str, traces: list[list[dict[str, Any]]], sure: int
    ) -> tuple[list[list[Kind | None]], dict[int, Kind]]:
        """Return the recorded kinds in the oracle's form."""
        return read(*self.native(name, _tracker.joined, traces, sure))


def read(
    kinds: bytes, columns: list[bytes], addresses: bytes, of_addresses: bytes
) -> tuple[list[list[Kind | None]], dict[int, Kind]]:
    """Decode the result of `joined`."""
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
