"""Compare simulations with PyTorch's allocator, which runs each program under many settings and
on cards of several sizes: `python -m tests.truth.simulations`.

python -m tests.truth.simulations --python VENV/bin/python [--all] [--only TEXT] [--keep FOLDER]

own             simulate each recording as it was made: every block must be the same
other settings  simulate a recording with other settings, and run PyTorch with them for comparison
smaller card    simulate a recording on a card that is too small, and run PyTorch on it, too
smallest card   find the smallest card on which the simulation fits; PyTorch must also fit on it,
                but not on one with 2 MiB less
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from memreplay.snapshot.alloc_conf import AllocatorSettings, changed_settings
from tests.truth.cases import (
    A100,
    CARDS,
    EXPANDABLE,
    INTERVALS,
    NOT_FROM_THE_START,
    NOTHING_OUTSIDE,
    POWERS,
    PROGRAMS,
    ROUNDED,
    SEGMENTS,
    SPLIT,
    Case,
)
from tests.truth.compare import Figure
from tests.truth.running import Server
from tests.truth.simulated import Ran, compare

LIMITED = "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9"
SETTINGS = ("", EXPANDABLE, SPLIT, ROUNDED, POWERS, INTERVALS, SEGMENTS, LIMITED)
SHOWN = 6
PAGE = 2 << 20
MORE = 1.04  # relative to the active peak: little enough that memory runs short

SIMULATED = [
    path.stem for path in sorted(PROGRAMS.glob("*.py")) if path.stem not in NOT_FROM_THE_START
]
DEVICES = {"two_devices": 2}

SAID = {"limited": "per_process_memory_fraction:0.25"}
"""Settings of a program that no file contains."""

SMALLEST = ("gpt", "emptied", "serving", "cache_by_cat", "gpt_autocast", "lengths")
"""Programs of which the smallest card is looked for."""

ORDER, TURNS = "it lets go in a hash table's order", "threads take turns as they come"
FREE, OTHER = "it asks how much is free", "its other device was full before"
ASKS_OTHERWISE = {
    ("gpt_autocast", "other settings"): ORDER,
    ("gpt_autocast", "smaller card"): ORDER,
    ("graph_training", "other settings"): ORDER,
    ("graph_training", "smaller card"): ORDER,
    ("threads", "other settings"): TURNS,
    ("threads", "smaller card"): TURNS,
    ("oom_fragmented", "smaller card"): FREE,
    ("oom_pending", "smaller card"): FREE,
    ("two_devices", "smaller card"): OTHER,
}
"""Programs that make different requests or frees from run to run, and why. They are compared
where they don't.
"""

DIFFERENT = {
    ("limited", "other settings", LIMITED): "it sets a limit that is not the one in the file,"
    " and what was collected below that looks like a cache that the program emptied",
}
"""Of programs, with the settings that they were recorded with, what is not equal, and why."""


class Run(NamedTuple):
    """A run of a program with some settings on a card."""

    program: str
    settings: str
    total: int = 0
    """The card's memory; 0 means more than enough."""

    @property
    def case(self) -> Case:
        _, *other = CARDS.get(self.program, A100).split(";")
        card = [A100, *(one for one in other if one.startswith(("lag", "count"))), NOTHING_OUTSIDE]
        if self.total:
            card.append(f"bytes={self.total}")
        return Case(self.program, self.settings, ";".join(card), moments=False, may_fail=True)

    @property
    def name(self) -> str:
        card = f" on {self.total / 2**20:,.0f} MiB" if self.total else ""
        return f"{self.program} [{self.settings or 'default'}]{card}"

    @property
    def said(self) -> AllocatorSettings:
        text = ",".join(filter(None, (self.settings, SAID.get(self.program))))
        return changed_settings(AllocatorSettings(), text)


class Tally:
    """The comparisons made."""

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose
        self.counts: Counter[str] = Counter()
        self.figures = 0
        self.failed: list[str] = []

    def note(self, kind: str, name: str, found: list[Figure], until: str = "") -> None:
        wrong = [one for one in found if one.truth != one.memreplay]
        self.figures += len(found) - len(wrong)
        if wrong:
            self.failed.append(f"{kind}: {name}")
            print(f"{kind}: {name}: {len(wrong)} figures differ")
            for one in wrong[:SHOWN]:
                print(f"  {one.what}: PyTorch {one.truth}, memreplay {one.memreplay}")
        else:
            self.count(kind, name, f"equal, {until}" if until else "equal")

    def count(self, kind: str, name: str, how: str) -> None:
        self.counts[f"{kind}: {how}"] += 1
        if self.verbose:
            print(f"{kind}: {name}: {how}")


class Session:
    """Runs programs on a server, each run only once."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.ran: dict[Run, list[Ran]] = {}
        self.broken: list[str] = []

    def make(self, runs: Iterable[Run]) -> None:
        asked = {run.case.name: run for run in runs if run not in self.ran}
        cases = [run.case.told(self.server.cuda) for run in asked.values()]
        for ended in self.server.run(cases):
            run = asked.pop(ended.name)
            if ended.status:
                self.broken.append(run.name)
                print(f"{run.name}: ended with {ended.status}")
                continue
            path = self.server.folder / f"{ended.pid}.pickle"
            devices = range(DEVICES.get(run.program, 1))
            self.ran[run] = [Ran(path, device) for device in devices]
        self.broken += [run.name for run in asked.values()]

    def of(self, run: Run) -> list[Ran]:
        """Return a run's devices; none if it failed."""
        return self.ran.get(run, [])

    def forget(self, program: str) -> None:
        for run, devices in self.ran.items():
            if run.program == program:
                for one in devices:
                    one.forget()


def main() -> int:
    asked = arguments()
    began = time.monotonic()
    plan = {
        program: SETTINGS if asked.all else few(place)
        for place, program in enumerate(SIMULATED)
        if asked.only in program
    }
    if not plan:
        print("no program that is simulated has such a name")
        return 0
    tally = Tally(verbose=asked.verbose)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep / "simulated" if asked.keep else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with Server(asked.python, folder) as server:
            session = Session(server)
            hold(session, plan, tally, everything=asked.all)
        version = server.torch()
    for kind, count in sorted(tally.counts.items()):
        print(f"{kind}: {count}")
    print(
        f"{tally.figures:,} figures of simulations equal, in {len(session.ran)} runs, torch"
        f" {version}, {time.monotonic() - began:.0f} s"
    )
    failed = tally.failed + session.broken
    if failed or server.failed:
        print(f"{len(failed)} failed: {'; '.join(failed)}")
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


def few(place: int) -> tuple[str, ...]:
    """Return three settings for the program at this position. All programs together cover all
    settings and most pairs.
    """
    n = len(SETTINGS)
    return tuple(SETTINGS[(place + more) % n] for more in (0, 1 + place // n, n - 1))


def hold(
    session: Session, plan: dict[str, tuple[str, ...]], tally: Tally, *, everything: bool
) -> None:
    """Run all programs, then compare."""
    roomy = {program: [Run(program, one) for one in plan[program]] for program in plan}
    session.make(run for runs in roomy.values() for run in runs)
    small = {
        program: [Run(program, one, total) for one in plan[program][: None if everything else 2]]
        for program in plan
        if (total := crowded(session.of(roomy[program][0])))
    }
    probed = {
        run: probes(one)
        for program in SMALLEST[: None if everything else 2]
        for run in roomy.get(program, [])[: None if everything else 1]
        for one in session.of(run)
    }
    session.make(run for runs in small.values() for run in runs)
    session.make(
        Run(run.program, run.settings, total)
        for run, cards in probed.items()
        for total in (sorted(cards) if everything else limits(cards))
    )
    for program in plan:
        for run in (*roomy[program], *small.get(program, [])):
            own(session, run, tally)
        for run in roomy[program]:
            for other in roomy[program]:
                if other != run:
                    across(session, run, other, "other settings", tally)
        for run in small.get(program, []):
            across(session, Run(program, run.settings), run, "smaller card", tally)
        for run in roomy[program]:
            if run in probed:
                smallest(session, run, probed[run], tally)
        session.forget(program)


def crowded(devices: list[Ran]) -> int:
    """Return the memory of a card on which memory runs short; 0 if unknown."""
    if not devices:
        return 0
    active = max(one.statistics["active peak"] for one in devices)
    part = 0.5 if devices[0].failed else MORE
    return -(-int(active * part) // PAGE) * PAGE


def probes(one: Ran) -> dict[int, bool]:
    """Search for the smallest card on which the simulation fits; return each size tried, and
    whether it fits.
    """
    low = one.statistics["active peak"] // 2 // PAGE
    high = -(-one.statistics["reserved peak"] * 2 // PAGE)
    found = {}
    while low + 1 < high:
        middle = (low + high) // 2
        found[middle * PAGE] = one.replay.simulate(program_memory=middle * PAGE).fits
        low, high = (low, middle) if found[middle * PAGE] else (middle, high)
    return found


def limits(cards: dict[int, bool]) -> list[int]:
    """Return the largest card that is too small, and the smallest that isn't."""
    fits = min(total for total, fit in cards.items() if fit)
    return [max(total for total, fit in cards.items() if not fit), fits]


def own(session: Session, run: Run, tally: Tally) -> None:
    for one in session.of(run):
        found = compare(one, run.said, None, one)
        assert found
        figures = found.figures
        if run.program not in SAID:
            figures.append(Figure("settings", run.said, one.replay.settings))
            reasons = one.replay.simulate().reasons
            figures.append(Figure("why it is an estimate", (), reasons))
        tally.note("own", f"{run.name}, device {one.device}", figures)


def across(session: Session, run: Run, other: Run, kind: str, tally: Tally) -> None:
    for one, real in zip(session.of(run), session.of(other), strict=False):
        name = f"{run.name} as {other.name}, device {one.device}"
        found = compare(one, other.said, other.total or None, real)
        why = ASKS_OTHERWISE.get((run.program, kind))
        known = DIFFERENT.get((run.program, kind, run.settings))
        if found is None and why is not None:
            tally.count(kind, name, f"not compared: asks for other things, {why}")
        elif known is not None:
            tally.count(kind, name, f"not compared: {known}")
        elif found is None:
            tally.note(kind, name, [Figure("it asks for", "the same", "other things")])
        else:
            tally.note(kind, name, found.figures, found.until)


def smallest(session: Session, run: Run, cards: dict[int, bool], tally: Tally) -> None:
    """Check that PyTorch's allocator fits on the same cards as the simulation, down to the
    smallest.
    """
    figures = []
    for total, fits in sorted(cards.items()):
        runs = session.of(Run(run.program, run.settings, total))
        figures += [Figure(f"fits {total:,} bytes", not real.failed, fits) for real in runs]
    below, fit = limits(cards)
    figures.append(Figure("the next card", fit - below, PAGE))
    tally.note("smallest card", f"{run.name}: {fit >> 20:,} MiB", figures)


if __name__ == "__main__":
    sys.exit(main())
