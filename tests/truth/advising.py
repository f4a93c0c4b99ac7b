"""Follow report's advice, and check the promised savings: `python -m tests.truth.advising`.

python -m tests.truth.advising --python VENV/bin/python [--only TEXT]

Each program in `advised/` runs dry twice, before and after following the advice, in separate
processes: the difference in `torch.cuda.max_memory_allocated()` is the truth. Another program runs
out of memory in AdamW's first step, and then runs on a card that is slightly larger than `oom` says
is needed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import memreplay as mr
from memreplay.commands.oom.find import oom_report
from memreplay.commands.report.find import overview

PROGRAMS = Path(__file__).parent / "advised"
NEAR = 0.20  # tolerance relative to the real savings, because the advice says "about"
MIB = 1 << 20


class Case(NamedTuple):
    """A program, advice that it must get, and advice that the improved program must not get."""

    program: str
    advice: str
    before: str = "before"


CASES = (
    Case("attention", "attention_scores"),
    Case("attention", "attention_scores", "method"),
    Case("loss", "loss"),
    Case("foreach", "foreach"),
    Case("zero_grad", "zero_grad"),
    Case("inference", "inference_mode"),
    Case("validation", "no_grad"),
    Case("validation_sum", "no_grad"),
    Case("teacher", "no_grad"),
)
NOT_ADVISED = (Case("teacher", "no_grad", "retained"),)
"""The advice would be wrong: the program needs what it keeps."""


def dry(python: str, out: Path, program: Path, *options: str, argument: str) -> int:
    """Run a program dry; return the peak that it reports, or -1 if it failed."""
    command = [sys.executable, "-m", "memreplay", "dryrun", *options, "-o", str(out), "--force"]
    done = subprocess.run(
        [*command, "--", python, str(program), argument],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.isdigit()]
    return int(said[0]) if said else -1


def advised(snapshot: Path) -> dict[str, int]:
    """Return each recommendation's promised savings."""
    (device,) = overview(mr.open(snapshot)).devices
    return {one.name: one.saved_bytes for one in device.advice}


def take(case: Case, python: str, folder: Path) -> list[str]:
    """Run a case and return its errors."""
    program, out = PROGRAMS / f"{case.program}.py", folder / "snapshot.pkl"
    before = dry(python, out, program, argument=case.before)
    said = advised(out).get(case.advice)
    after = dry(python, out, program, argument="after")
    again = advised(out).get(case.advice)
    print(
        f"{case.program} ({case.before}): {before / 1e6:,.0f} MB, then {after / 1e6:,.0f};"
        f" {case.advice} said {0 if said is None else said / 1e6:,.0f} MB of"
        f" {(before - after) / 1e6:,.0f}"
    )
    wrong = []
    if said is None:
        wrong.append(f"{case.program}: no advice {case.advice}")
    elif abs(said - (before - after)) > NEAR * (before - after):
        wrong.append(f"{case.program}: {said} said, {before - after} saved")
    if again is not None and again > 0.1 * (before - after):
        wrong.append(f"{case.program}: {case.advice} is still advised, for {again}")
    return wrong


def leave(case: Case, python: str, folder: Path) -> list[str]:
    """Run a case that must not get the advice, and return its errors."""
    program, out = PROGRAMS / f"{case.program}.py", folder / "snapshot.pkl"
    dry(python, out, program, argument=case.before)
    said = advised(out).get(case.advice)
    print(f"{case.program} ({case.before}): {case.advice} said {said}")
    return [f"{case.program} ({case.before}): {case.advice} is advised"] if said else []


def first_step(python: str, folder: Path) -> list[str]:
    """Run out of memory in AdamW's first step, then run again with the additional memory that the
    step needs.
    """
    program, out = PROGRAMS / "foreach.py", folder / "snapshot.pkl"
    settings = ("--set", "expandable_segments:True")
    card = 1_500 * MIB
    dry(python, out, program, *settings, "--total-memory", f"{card // MIB}MiB", argument="before")
    (device,) = oom_report(mr.open(out)).devices
    (oom,) = device.ooms
    needed = oom.step_missing_bytes
    print(
        f"AdamW's first step: {oom.missing_bytes / 1e6:,.0f} MB missing, {needed / 1e6:,.0f} said"
    )
    wrong = []
    for more, fits in ((needed - 40 * MIB, False), (needed + 40 * MIB, True)):
        memory = f"{(card + more) // MIB}MiB"
        found = (
            dry(python, out, program, *settings, "--total-memory", memory, argument="before") > 0
        )
        if found is not fits:
            wrong.append(f"AdamW's first step: with {more} more it {'fits' if found else 'fails'}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the environment that has torch")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    asked = parser.parse_args()
    checks: list[Callable[[str, Path], list[str]]] = []
    if asked.only in "first_step":
        checks.append(first_step)
    checks += [partial(take, case) for case in CASES if asked.only in case.program]
    checks += [partial(leave, case) for case in NOT_ADVISED if asked.only in case.program]

    def check(one: Callable[[str, Path], list[str]]) -> list[str]:
        with tempfile.TemporaryDirectory() as temporary:
            return one(asked.python, Path(temporary))

    # Programs import torch on one processor, which takes most of the time.
    with ThreadPoolExecutor(2) as pool:
        wrong = [line for lines in pool.map(check, checks) for line in lines]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
