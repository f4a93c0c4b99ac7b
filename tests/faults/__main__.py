"""The full run, `python -m tests.faults`: each system call of each command fails in turn, and each
writer is killed 500 times.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.faults import faults, spread
from tests.faults.judging import judged
from tests.faults.kills import Kill, at_calls, at_random, killed, writers
from tests.faults.running import Outcome, Runner, runner
from tests.faults.scenarios import OLD, SCENARIOS, Scenario
from tests.faults.shim import is_possible

OUTCOMES = ("same", "error", "killed", "mixed", "ended", "missed", "theirs", "wrong")
Tally = Counter[tuple[str, str, str]]


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--group", default="", help="only calls of this group; kill: only kills")
    parser.add_argument("--most", type=int, default=10**9, help="calls of each kind (all)")
    parser.add_argument("--memory", type=int, default=1_000, help="the same for memory (1,000)")
    parser.add_argument("--kills", type=int, default=500, help="of each writer (500)")
    parser.add_argument("--seed", type=int, default=0, help="other moments (0)")
    parser.add_argument("--part", default="1/1", help="of the scenarios: 2/3 is the second third")
    options = parser.parse_args(arguments)
    if not is_possible():
        print("this needs Linux with glibc, and gcc", file=sys.stderr)
        return 2
    part, parts = map(int, options.part.split("/"))
    possible = [one for one in SCENARIOS if options.only in one.name and one.is_possible]
    tally: Tally = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="memreplay-faults-") as folder,
        runner(Path(folder), large=any(one.large for one in possible)) as run,
    ):
        for scenario in possible[part - 1 :: parts]:
            began = time.monotonic()
            before = tally.total()
            _disturb(run, scenario, tally, options)
            took = time.monotonic() - began
            print(f"{scenario.name}: {tally.total() - before} runs in {took:.0f} s", flush=True)
    print(table(tally))
    return int(any(outcome == "wrong" for _, _, outcome in tally))


def _disturb(run: Runner, scenario: Scenario, tally: Tally, options: argparse.Namespace) -> None:
    """Run all of a scenario's faults, then its kills."""
    run.run(scenario)  # so that its output already exists
    began = time.monotonic()
    base = run.run(scenario)
    took = time.monotonic() - began
    if base.exit != scenario.exits:
        _say(scenario, "nothing", "wrong: it fails by itself", base)
        tally[scenario.name, "none", "wrong"] += 1
        return
    old = dict.fromkeys(scenario.old, OLD)
    for fault in faults(base.counted.calls, options.most, options.memory):
        if options.group not in ("", fault.group):
            continue
        done = run.run(scenario, fault)
        outcome = judged(scenario, old, base, fault, done)
        if outcome == "error" and (scenario.resumes or "the previous files are in /" in done.err):
            again = run.run(scenario, again=True)
            if (again.exit, again.files) != (base.exit, base.files):
                outcome = "wrong: run again, it is not the same"
        _note(tally, scenario, fault.kind, str(fault), outcome, done)
    if options.group not in ("", "kill") or scenario not in writers((scenario,)):
        return
    kills: list[Kill] = list(at_calls(base.counted.calls))
    kills = [kills[at] for at in spread(len(kills), options.most)]
    kills += at_random(options.seed, options.kills, took)
    for kill in kills:
        outcome, told = killed(run, scenario, base, kill)
        tally[scenario.name, kill.kind, outcome.partition(":")[0]] += 1
        if outcome.startswith("wrong"):
            print(f"*** {scenario.name}, {kill}: {outcome}\n    {told.strip()[-700:]}", flush=True)


def _note(
    tally: Tally, scenario: Scenario, kind: str, what: str, outcome: str, done: Outcome
) -> None:
    tally[scenario.name, kind, outcome.partition(":")[0]] += 1
    if outcome.startswith("wrong"):
        _say(scenario, what, outcome, done)


def _say(scenario: Scenario, what: str, outcome: str, done: Outcome) -> None:
    print(f"*** {scenario.name}, {what}: {outcome}")
    print(f"    exit {done.exit}: {done.err.strip()[-700:]}", flush=True)


def table(tally: Tally) -> str:
    """Print runs and outcomes by scenario, then by fault."""
    lines = []
    for head, by in (("command", 0), ("fault", 1)):
        lines.append(f"{head:32}" + "".join(f"{name:>8}" for name in ("runs", *OUTCOMES)))
        for name in dict.fromkeys(key[by] for key in tally):
            row = [
                sum(n for key, n in tally.items() if key[by] == name and key[2] == outcome)
                for outcome in OUTCOMES
            ]
            lines.append(f"{name:32}" + "".join(f"{n:>8,}" for n in (sum(row), *row)))
        lines.append("")
    lines.append(f"{tally.total():,} runs")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
