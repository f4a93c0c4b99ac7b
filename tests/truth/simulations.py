"""Holds simulations against PyTorch's allocator, which runs each program under many settings and on
cards of several sizes: `python -m tests.truth.simulations`.

python -m tests.truth.simulations --python VENV/bin/python [--all] [--only TEXT] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings
from tests.truth.cases import (
    A100,
    CARDS,
    EXPANDABLE,
    INTERVALS,
    NOT_FROM_THE_START,
    POWERS,
    PROGRAMS,
    ROUNDED,
    SEGMENTS,
    SPLIT,
    Case,
)
from tests.truth.compare import Figure
from tests.truth.running import Server
from tests.truth.simulated import Made, Ran, compare

COLLECTED = "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9"
SETTINGS = ("", EXPANDABLE, SPLIT, ROUNDED, POWERS, INTERVALS, SEGMENTS, COLLECTED)
SHOWN = 6
MIB = 1 << 20
PAGE = 2 * MIB
MORE = 1.04  # of what is active at most: so little that the allocator is in want of memory

ALL = [path.stem for path in sorted(PROGRAMS.glob("*.py"))]
SIMULATED = [name for name in ALL if name not in NOT_FROM_THE_START]

SAID = {"limited": "per_process_memory_fraction:0.25"}
"""What a program sets that no file has."""

SMALLEST = ("gpt", "emptied", "serving", "cache_by_cat", "gpt_autocast", "lengths")
"""Programs of which the smallest card is looked for, which they do not ask about."""


class Run(NamedTuple):
    """A program under settings, on a card."""

    program: str
    settings: str
    total: int = 0
    """The card's memory; 0 for more than is needed."""

    @property
    def case(self) -> Case:
        key, _, other = CARDS.get(self.program, A100).partition(";")
        other = ";".join(one for one in other.split(";") if one.startswith(("lag", "count")))
        card = ";".join(filter(None, (A100, other, "context=0")))
        if self.total:
            card += f";bytes={self.total}"
        return Case(self.program, self.settings, card, moments=False, may_fail=True)

    @property
    def name(self) -> str:
        card = f" on {self.total / MIB:,.0f} MiB" if self.total else ""
        return f"{self.program} [{self.settings or 'default'}]{card}"


class Tally:
    """What was compared."""

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose
        self.counts: Counter[str] = Counter()
        self.figures = 0
        self.failed: list[str] = []
        self.otherwise: list[str] = []

    def note(self, kind: str, name: str, found: list[Figure], *, partly: bool = False) -> None:
        wrong = [one for one in found if one.truth != one.memreplay]
        self.figures += len(found) - len(wrong)
        self.counts[kind] += 1
        if wrong:
            self.failed.append(f"{kind}: {name}")
            print(f"{kind}: {name}: {len(wrong)} figures differ")
            for one in wrong[:SHOWN]:
                print(f"  {one.what}: PyTorch {one.truth}, memreplay {one.memreplay}")
        else:
            self.counts[f"{kind}, equal"] += 1
            self.counts[f"{kind}, equal, up to a failure"] += partly
            if self.verbose:
                print(f"{kind}: {name}: equal")


class Session:
    """The runs of a server, each made once."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.ran: dict[Run, list[Ran]] = {}
        self.broken: list[str] = []

    def make(self, runs: Iterable[Run]) -> None:
        cases = {one.case.name: one for one in runs if one not in self.ran}
        told = [one.case.told(self.server.cuda) for one in cases.values()]
        for ended in self.server.run(told):
            run = cases.pop(ended.name)
            if ended.status:
                self.broken.append(run.name)
                print(f"{run.name}: ended with {ended.status}")
                continue
            path = self.server.folder / f"{ended.pid}.pickle"
            devices = 2 if run.program == "two_devices" else 1
            self.ran[run] = [Ran(path, device) for device in range(devices)]
        self.broken += [one.name for one in cases.values()]

    def of(self, run: Run) -> list[Ran]:
        return self.ran.get(run, [])


def settings_of(run: Run) -> AllocatorSettings:
    text = ",".join(filter(None, (run.settings, SAID.get(run.program))))
    return changed_settings(AllocatorSettings(), text)


def main() -> int:
    asked = arguments()
    began = time.monotonic()
    programs = [name for name in SIMULATED if asked.only in name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        tally = Tally(verbose=asked.verbose)
        with Server(asked.python, folder) as server:
            session = Session(server)
            hold(session, programs, tally)
        version = server.torch()
    for kind, count in sorted(tally.counts.items()):
        print(f"{kind}: {count}")
    print(f"{tally.figures:,} figures equal, torch {version}, {time.monotonic() - began:.0f} s")
    failed = tally.failed + session.broken
    if failed or server.failed:
        print(f"{len(failed)} failed")
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the environment that has torch")
    parser.add_argument("--all", action="store_true", help="each program with all settings")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--keep", type=Path, help="write snapshots there, and leave them")
    parser.add_argument("--verbose", action="store_true", help="a line for each comparison")
    return parser.parse_args()


def hold(session: Session, programs: list[str], tally: Tally) -> None:
    roomy = [Run(program, settings) for program in programs for settings in SETTINGS]
    session.make(roomy)
    small = [
        Run(program, settings, total)
        for program in programs
        if (total := crowded(session, program))
        for settings in SETTINGS
    ]
    session.make(small)
    for run in (*roomy, *small):
        own(session, run, tally)
    for run in roomy:
        for settings in SETTINGS:
            if settings != run.settings:
                across(session, run, Run(run.program, settings), "other settings", tally)
    for run in small:
        across(session, Run(run.program, run.settings), run, "smaller card", tally)


def crowded(session: Session, program: str) -> int:
    """A card on which that program is in want of memory."""
    first = session.of(Run(program, ""))
    if not first:
        return 0
    active = max(one.statistics["active peak"] for one in first)
    part = 0.5 if first[0].failed else MORE
    return -(-int(active * part) // PAGE) * PAGE


def own(session: Session, run: Run, tally: Tally) -> None:
    for one in session.of(run):
        settings = settings_of(run)
        if run.program not in SAID and one.replay.settings != settings:
            tally.note("own", run.name, [Figure("settings", settings, one.replay.settings)])
        found = compare(one, settings, None, one)
        assert found
        tally.note("own", f"{run.name} device {one.device}", found.figures)


def across(session: Session, run: Run, other: Run, kind: str, tally: Tally) -> None:
    for one, real in zip(session.of(run), session.of(other), strict=False):
        name = f"{run.name} to {other.name} device {one.device}"
        found = compare(one, settings_of(other), other.total or None, real)
        if found is None:
            tally.otherwise.append(name)
            tally.counts[f"{kind}, not compared"] += 1
            print(f"{kind}: {name}: asks for other things")
            continue
        tally.note(kind, name, found.figures, partly=not found.whole)


if __name__ == "__main__":
    sys.exit(main())
