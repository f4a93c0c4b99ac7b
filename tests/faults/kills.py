"""Writers that are killed: what is there is old or new, whole; the next run leaves nothing else."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.faults.judging import PART
from tests.faults.running import Outcome, Runner
from tests.faults.scenarios import OLD, Scenario
from tests.faults.shim import Fault

# Before and after each of these.
CALLS = ("open", "write", "close", "rename", "unlink", "mkdir", "fsync", "chmod", "link", "lock")


@dataclass(frozen=True)
class Kill:
    """At a call, or after so many seconds."""

    fault: Fault | None = None
    seconds: float | None = None

    @property
    def kind(self) -> str:
        return "kill -9 at any time" if self.fault is None else f"kill -9 at {self.fault.group}"

    def __str__(self) -> str:
        return f"killed after {self.seconds:.4f} s" if self.seconds else f"{self.fault}"


def writers(scenarios: tuple[Scenario, ...]) -> list[Scenario]:
    """Those that make files, and can be run again to the same end."""
    return [one for one in scenarios if "{out}" in one.args and not one.exits]


def at_calls(calls: Mapping[str, int]) -> Iterator[Kill]:
    """Before and after each call."""
    for group in CALLS:
        for how in ("kill", "after"):
            for at in range(calls.get(group, 0)):
                yield Kill(Fault(group, how, at))


def at_random(seed: int, number: int, longest_s: float) -> Iterator[Kill]:
    """So many, at any time of a run."""
    of = random.Random(seed)
    for _ in range(number):
        yield Kill(seconds=of.uniform(0.0005, longest_s))


def killed(run: Runner, scenario: Scenario, base: Outcome, kill: Kill) -> tuple[str, str]:
    """What came of it, and what is in the folder then.

    `killed`, `mixed` (of several files some are old, some new, until it is run again), `ended` (it
    came too late) or what is wrong, after `wrong: `.
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
    # A folder that has not even a lock stays for an hour: its writer may be about to make one.
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
