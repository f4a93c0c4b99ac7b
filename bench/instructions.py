"""Count the instructions needed to open and replay two 5 MB snapshots, under callgrind.

    python bench/instructions.py             compare with bench/instructions.json
    python bench/instructions.py --update    write it

The count is the difference between a process that opens and replays a snapshot and one that only
imports memreplay, so that Python's startup doesn't dilute a change. One snapshot is plain, the
other has an unknown key in each event, which must stay on the fast path. Unlike time, the count
hardly varies from run to run.

Exit codes: 0 success, 1 more instructions than before, 2 not measured.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from compare import generated

FIGURE = Path(__file__).resolve().parent / "instructions.json"
MEGABYTES = 5
SNAPSHOTS = {"plain": (), "unknown key": ("--unknown-key",)}
RUNS = 3
NO_FIGURE: dict[str, object] = {"instructions": None}
ALLOWED = 0.03
# If the compiler or Python isn't the recorded one, only a large difference is meaningful.
ALLOWED_ELSEWHERE = 0.15

IMPORT = "import sys, memreplay as mr; import memreplay.snapshot.replay; mr.open"
MEASURED = f"{IMPORT}; snap = mr.open(sys.argv[1]); snap.replay(snap.devices[0]).peak.bytes"


class NotMeasuredError(Exception):
    """Raised if the instruction count can't be measured on this machine."""


def environment() -> dict[str, str]:
    """Return an environment with only the variables that determine where memreplay is found; others
    would change the count, so they're fixed.
    """
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    # Don't write bytecode or look for it elsewhere, and make dicts of strings iterate in a fixed
    # order.
    return kept | {"LC_ALL": "C", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def count(code: str, *arguments: str | Path, folder: Path | None = None) -> int:
    """Return the number of instructions of one Python process, started in `folder`."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NotMeasuredError("valgrind is not installed, so instructions were not counted")
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(
            [
                valgrind,
                "--tool=callgrind",
                f"--callgrind-out-file={out}/out",
                *(sys.executable, "-c", code, *map(str, arguments)),
            ],
            env=environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if done.returncode or not found:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise NotMeasuredError(f"valgrind ended with {done.returncode}: {last[0]}")
    return int(found[1])


def warm_up(file: Path) -> None:
    """Run once without valgrind, so that every module's bytecode is in place."""
    plain = environment() | {"PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", MEASURED, str(file)]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise NotMeasuredError(f"memreplay ended with {done.returncode}: {last[0]}")


def compiler() -> str:
    """Return the compiler that built the engine, from its note in the module."""
    spec = importlib.util.find_spec("memreplay._core")
    if spec is None or spec.origin is None:
        raise NotMeasuredError("memreplay is not built: run `make build` first")
    note = re.search(rb"(GCC|clang)[^\0\n]*? (\d+)\.\d+", Path(spec.origin).read_bytes())
    return f"{note[1].decode().lower()} {note[2].decode()}" if note else "unknown"


def conditions(file: Path) -> dict[str, str]:
    """Return the conditions, other than the source, that affect the count."""
    return {
        "compiler": compiler(),
        "machine": platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "snapshot": hashlib.sha256(file.read_bytes()).hexdigest()[:16],
    }


def least(code: str, *arguments: str | Path) -> int:
    """Return the lowest count of a few runs."""
    # Run several at once, because other processes don't affect counts. In one run of five, the
    # memory layout costs a hash table a few more probes, which add up to 1%.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return min(pool.map(lambda _: count(code, *arguments), range(RUNS)))


@cache
def importing() -> int:
    """Return the instruction count of a process that only imports memreplay."""
    return least(IMPORT, "")


def measure(file: Path) -> int:
    warm_up(file)
    return least(MEASURED, file) - importing()


def judge(name: str, measured: int, known: dict[str, str], figure: dict[str, object]) -> int:
    """Print one snapshot's comparison and return the exit code."""
    before = figure["instructions"]
    where = figure.get("conditions")
    if not isinstance(before, int) or not isinstance(where, dict):
        raise NotMeasuredError(f"{FIGURE.name} is damaged: write it anew with --update")
    allowed = ALLOWED
    differing = [name for name, value in known.items() if where.get(name) != value]
    if differing:
        allowed = ALLOWED_ELSEWHERE
        details = ", ".join(f"{name} {where.get(name)} -> {known[name]}" for name in differing)
        print(f"warning: measured under other conditions ({details}): {allowed:.0%} allowed")
    change = measured / before - 1
    print(
        f"{name}: {measured:,} instructions, {change:+.2%} against {before:,};"
        f" {allowed:.0%} allowed"
    )
    if change > allowed:
        print("too many: find out why, or accept it with --update", file=sys.stderr)
        return 1
    if change < -ALLOWED and not differing:
        print("fewer than before: keep it with --update")
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the figure")
    args = parser.parse_args(arguments)
    figures: dict[str, dict[str, object]] = {}
    code = 0
    try:
        if not args.update and not FIGURE.exists():
            raise NotMeasuredError(f"there is no {FIGURE.name}: write it with --update")
        before = {} if args.update else json.loads(FIGURE.read_text(encoding="utf-8"))
        for name, options in SNAPSHOTS.items():
            file = generated(MEGABYTES, *options)
            known = conditions(file)
            measured = measure(file)
            figures[name] = {"instructions": measured, "conditions": known}
            if not args.update:
                code = max(code, judge(name, measured, known, before.get(name, NO_FIGURE)))
                continue
            per_byte = measured / file.stat().st_size
            print(f"{name}: {measured:,} instructions, {per_byte:.2f} a byte")
    except NotMeasuredError as error:
        print(error, file=sys.stderr)
        return 2
    if args.update:
        FIGURE.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        print(f"written to {FIGURE.name}")
    return code


if __name__ == "__main__":
    sys.exit(main())
