"""Kill commands that write. Each file must be the complete old or new one, and the next run must
remove leftovers.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.faults.judging import PART
from tests.faults.running import Outcome, Runner
from tests.faults.scenarios import OLD, Scenario
from tests.faults.shim import Fault

# Groups of calls before and after which a writer is killed.
CALLS = ("open", "write", "close", "rename", "unlink", "mkdir", "fsync", "chmod", "link", "lock")


@dataclass(frozen=True)
class Kill:
    """When to kill a writer: at a call, or after this many seconds."""

    fault: Fault | None = None
    seconds: float | None = None

    @property
    def kind(self) -> str:
        return "kill -9 at any time" if self.fault is None else f"kill -9 at {self.fault.group}"

    def __str__(self) -> str:
        return f"killed after {self.seconds:.4f} s" if self.seconds else f"{self.fault}"


def writers(scenarios: tuple[Scenario, ...]) -> list[Scenario]:
    """Return the scenarios that write files and can be repeated with the same result."""
    return [one for one in scenarios if "{out}" in one.args and not one.exits]


def at_calls(calls: Mapping[str, int]) -> Iterator[Kill]:
    """Return kills before and after each call."""
    for group in CALLS:
        for how in ("kill", "after"):
            for at in range(calls.get(group, 0)):
                yield Kill(Fault(group, how, at))


def at_random(seed: int, number: int, longest_s: float) -> Iterator[Kill]:
    """Return this many kills at random times in a run."""
    of = random.Random(seed)
    for _ in range(number):
        yield Kill(seconds=of.uniform(0.0005, longest_s))


def killed(run: Runner, scenario: Scenario, base: Outcome, kill: Kill) -> tuple[str, str]:
    """Kill a run; return the outcome and the folder's contents.

    The outcome is `killed`, `mixed` (until the next run, some files are old and some new), `ended`
    (the kill came too late), or `wrong: ` and the problem.
    """
    done = run.run(scenario, kill.fault, kill_s=kill.seconds)
    if done.exit not in (-signal.SIGKILL, base.exit):
        return f"wrong: exit {done.exit}", done.err
    old = dict.fromkeys(scenario.old, OLD)
    found = _whole(scenario, old, base, done)
    if found.startswith("wrong"):
        return found, " ".join(sorted(done.files))
    again = run.run(scenario, again=True)
    if scenario.once and again.exit == 2 and "already exists" in again.err:
        pass
    elif again.exit != base.exit:
        return f"wrong: run again, exit {again.exit}", again.err
    if again.files != base.files:
        odd = {n for n in {*again.files, *base.files} if again.files.get(n) != base.files.get(n)}
        return f"wrong: run again, {min(odd)} is not the same", " ".join(sorted(again.files))
    # A temporary folder without a lock is kept for an hour, because its writer may be about to
    # create the lock.
    left = [name for name in run.listed() if PART.search(name)]
    if len(left) > 1:
        return f"wrong: run again, {left} are left", ""
    return found if done.exit < 0 else "ended", ""


def _whole(scenario: Scenario, old: Mapping[str, bytes], base: Outcome, done: Outcome) -> str:
    shown = {name: data for name, data in done.files.items() if not PART.search(name)}
    if scenario.resumes:
        return "killed"
    for name, data in shown.items():
        if data not in (old.get(name), base.files.get(name)):
            return f"wrong: {name} is neither old nor new"
    kept = {name.partition(".part/old/")[2] for name in done.files}
    for name in old:
        if name not in shown and name not in kept:
            return f"wrong: {name} is lost"
    return "killed" if shown in (old, base.files) or not old else "mixed"
