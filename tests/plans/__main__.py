"""Dry-run the programs, with or without changes, and print their peaks:

    python -m tests.plans --python ENV/bin/python [--change CHANGE …] [NAME …]

With --check, plan for three smaller cards each, apply the first plan that needs no edit, and fail
if its dry run doesn't fit or a cheaper lever was missed.

ENV has PyTorch's CUDA build, transformers, peft, timm and torch_geometric. Not part of CI, because
they are gigabytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT
from tests.plans.checking import HEAD, rows_of, summary

PROGRAMS = Path(__file__).parent / "programs"
NAMES = ("gpt", "llama_lora", "vit", "unet", "bert", "whisper", "gnn", "gan")


class Measured(NamedTuple):
    """A dry run's peaks."""

    requested_bytes: int
    reserved_bytes: int
    exact: bool
    changes: tuple[str, ...]
    """The changes, with how many modules or optimizers each one changed."""
    snapshot: Path
    report: dict[str, Any]


def measured(python: str, name: str, changes: tuple[str, ...], folder: Path) -> Measured:
    """Dry-run a program, and return its peaks. The snapshot is written to `folder`.

    Raises RuntimeError if it doesn't fit or fails.
    """
    snapshot = folder / f"{name}.pickle"
    options = [word for change in changes for word in ("--change", change)]
    options += ["-o", str(snapshot), "--force", "--json", "--gpu", "A100-80"]
    program = (python, str(PROGRAMS / f"{name}.py"))
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "dryrun", *options, "--", *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} {' '.join(changes)}: {done.stderr or done.stdout}")
    report = json.loads(done.stdout)
    ((device,),) = (one["devices"] for one in report["processes"])
    return Measured(
        device["requested_peak_bytes"],
        device["reserved_peak_bytes"],
        report["exact"],
        tuple(f"{one['option']} ({len(one['names'])})" for one in report["program_changes"]),
        snapshot,
        report,
    )


def checked(python: str, names: Sequence[str]) -> int:
    """Print a table of plans and their dry runs; return whether any of them failed."""
    rows = []
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for row in rows_of(python, name, PROGRAMS / f"{name}.py", Path(folder)):
                print(row.line(), flush=True)
                rows.append(row)
    print(summary(rows))
    return int(any(one.failed or one.missed for one in rows))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="Python of the environment")
    parser.add_argument("--change", action="append", default=[], help="as of memreplay dryrun")
    parser.add_argument("--check", action="store_true", help="apply plans, and check that they fit")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    asked = parser.parse_args(arguments)
    if asked.check:
        return checked(asked.python, asked.names or NAMES)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names or NAMES:
            try:
                found = measured(asked.python, name, tuple(asked.change), Path(folder))
            except RuntimeError as error:
                failed = 1
                print(error)
                continue
            exact = "exact" if found.exact else "not exact"
            print(
                f"{name:12} {found.requested_bytes:>15,} requested"
                f" {found.reserved_bytes:>15,} reserved  {exact:9}"
                f" {found.report['seconds']:5.1f} s  {', '.join(found.changes)}",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
