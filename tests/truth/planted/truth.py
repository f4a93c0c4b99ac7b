"""Declare the truth about a planted program, and record it.

A program is a function decorated with `@planted(...)`. Its loop is `for i in steps(60):`, which
starts the recording at the right step for each kind of recording. At the end of each step it counts
allocations, which locates the steps in the trace without any mark.

It runs in a process that has torch.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from tests.truth import told

KINDS = ("recorder", "python", "bare", "late", "ring")
"""memreplay's recorder; PyTorch's own recording with Python stacks, and without stacks; one that
begins after some of the steps; and one whose ring is too small."""
MORE_KINDS = ("short",)
"""A ring that holds about 16 steps."""

ALL_STACKS = "all"  # PyTorch's default

programs: dict[str, Program] = {}
"""All that were imported, by name."""


class Program:
    """A function, and the truth that it declares."""

    def __init__(self, function: Callable[[], object], truth: dict[str, Any]) -> None:
        self.function, self.truth = function, truth
        self.name = function.__name__
        self.path = function.__code__.co_filename

    def lines(self) -> dict[str, int]:
        """Return the line of each mark, which is a comment at the end of a line in the function."""
        first = self.function.__code__.co_firstlineno
        found: dict[str, int] = {}
        lines = Path(self.path).read_text(encoding="utf-8").splitlines()
        for number, text in enumerate(lines[first:], first + 1):
            if text.startswith(("def ", "@", "class ")) and number > first + 1:
                break
            mark = text.rpartition("  # ")[2]
            if mark in self.truth["leaks"]:
                found[mark] = number
        missing = set(self.truth["leaks"]) - set(found) - {"NO STACK"}
        assert not missing, f"{self.name}: no line ends with # {missing}"
        return found


def planted(
    leaks: dict[str, int | Callable[[int], int]] | None = None,
    *,
    stepped: bool = True,
    every: int = 1,
    grows: int = 0,
    grows_from: int = 0,
    spread: bool = False,
    categories: bool = False,
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Declare the truth about a program.

    `leaks` maps the mark (comment) of each leaking line to the bytes leaked per step: a number, or
    a function of the step's number. "NO STACK" stands for memory that no Python line allocates (in
    the backward pass). `stepped`: the program has training steps, which must be found; otherwise
    its loop has no recognisable steps, such as a server's requests. `every`: this many rounds of
    the loop are one step. `grows`: each step needs this many bytes more than the previous one, and
    frees them. `grows_from`: leaks begin in this step. `spread`: many lines allocate the leak, so
    only their sum is compared. `categories`: the program calls `tests.truth.stock.take` (or
    `told.categories`) with the memory of its own objects, which the recorder's notes must match
    exactly.
    """

    def decorate(function: Callable[[], object]) -> Callable[[], object]:
        truth = {
            "leaks": leaks or {},
            "stepped": stepped,
            "every": every,
            "grows": grows,
            "grows_from": grows_from,
            "spread": spread,
            "categories": categories,
        }
        assert function.__name__ not in programs, function.__name__
        programs[function.__name__] = Program(function, truth)
        return function

    return decorate


class Run:
    """A program recorded in one way. Writes PID.pickle and PID.truth.json."""

    def __init__(self, program: Program, kind: str, folder: str) -> None:
        self.program, self.kind = program, kind
        self.path = os.path.join(folder, f"{os.getpid()}.pickle")
        self.recorder: Any = None
        self.recording = self.ended = False
        self.begun_at = 0  # allocations before the recording
        self.ends: list[
            int
        ] = []  # number of allocations before the first step, then at the end of each step

    def main(self) -> None:
        torch.cuda.init()
        if self.kind in ("recorder", "python", "bare"):
            self.begin()
        self.program.function()
        assert self.recording, "the loop is for i in steps(n)"
        if not self.ended:
            self.end()

    def begin(self, entries: int = sys.maxsize) -> None:
        self.recording = True
        self.begun_at = allocated()
        if self.kind == "recorder":
            from memreplay.recording.recorder import Recorder

            self.recorder = Recorder(self.path, quiet=True)
            self.recorder.__enter__()
        else:
            how: dict[str, Any] = {"context": None} if self.kind == "bare" else {"stacks": "python"}
            torch.cuda.memory._record_memory_history(max_entries=entries, **how)
        if self.program.truth["categories"]:
            told.begin_quietly()

    def steps(self, n: int) -> Iterator[int]:
        late = n // 4 if self.kind == "late" else 0
        before_ring = 4
        for i in range(n):
            if self.kind == "late" and i == late:
                self.begin()
            elif self.kind in ("ring", "short") and i == before_ring:
                # An allocation has up to three events: alloc, free requested, free completed.
                each = 3 * (self.ends[-1] - self.ends[-3]) / 2
                self.begin(math.ceil(each * (16 if self.kind == "short" else 0.6 * n)))
            if not self.ends:
                self.ends.append(allocated())
            yield i
            self.ends.append(allocated())
        if self.kind != "late":  # a late recording includes the frees at the end of the program
            self.end()

    def end(self) -> None:
        self.ended = True
        now = allocated()
        if self.recorder is not None:
            self.recorder.__exit__(None, None, None)
        else:
            torch.cuda.memory._dump_snapshot(self.path)
        truth = self.program.truth
        leaks = {
            mark: [leak if isinstance(leak, int) else leak(i) for i in range(len(self.ends) - 1)]
            for mark, leak in truth["leaks"].items()
        }
        found = told._truth.found["categories"] if truth["categories"] else []
        with open(self.path.replace(".pickle", ".truth.json"), "w", encoding="utf-8") as file:
            json.dump(
                {
                    **truth,
                    "name": self.program.name,
                    "kind": self.kind,
                    "file": self.program.path,
                    "lines": self.program.lines(),
                    "leaks": leaks,
                    "begun_at": self.begun_at,
                    "allocated": now,
                    "ends": self.ends,
                    "taken": told._truth.taken,
                    "categories": found,
                },
                file,
            )


def allocated() -> int:
    """Return the number of allocations so far."""
    return int(torch.cuda.memory_stats()["allocation.all.allocated"])


_run: list[Run] = []


def run(program: Program, kind: str, folder: str) -> None:
    """Run a program in its own process."""
    _run.append(Run(program, kind, folder))
    _run[0].main()


def steps(n: int) -> Iterator[int]:
    """Yield each step's number when the step starts."""
    return _run[0].steps(n)
