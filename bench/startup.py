"""Measure the startup cost of short commands: CPU time, imported modules and instructions.

    python bench/startup.py              print everything
    python bench/startup.py --check      compare modules and instructions with bench/startup.json
    python bench/startup.py --update     write bench/startup.json

CPU time is measured for whole processes, which take turns: the median, and also the minimum,
because other load can only add to it. Commands are also compared with `import click` in the same
round, as a median. For `--version`, Python's own modules are subtracted from the number of modules;
for `peak` and `report`, click's are. Instructions are counted under callgrind: all of them for
`--version`, those beyond click's for the others.

Exit codes: 0 success, 1 more than before, 2 not measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from instructions import ALLOWED, ALLOWED_ELSEWHERE, RUNS, NotMeasuredError, compiler, count

FIGURE = Path(__file__).resolve().parent / "startup.json"
EXAMPLE = Path(__file__).resolve().parents[1] / "examples/transformer_step.pkl.gz"
ROUNDS = 21

# The installed script's code.
RUN = "import sys; from memreplay.__main__ import run; sys.exit(run())"
# The installed script's code, which also prints all loaded modules at exit.
NAMED = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {RUN}"
LISTED = "import atexit, sys; import {}; print(*sys.modules, file=sys.stderr)"
BASES = {"python": "pass", "click": "import click"}
# The commands to count, and what to subtract. memreplay ends without finalizing Python, so it can
# take fewer instructions than Python itself. That's why all instructions of `--version` are
# counted.
COUNTED = {"--version": "python", "peak": "click", "report": "click"}


@contextmanager
def snapshot() -> Iterator[Path]:
    """Return a snapshot of 1.7 MB in its own folder, with no configuration file nearby."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "snap.pkl"
        file.write_bytes(gzip.decompress(EXAMPLE.read_bytes()))
        yield file


def arguments(command: str, file: Path) -> list[str]:
    """Return the measured command line, without the program's name."""
    return [command] if command.startswith("-") else [command, str(file)]


def environment() -> dict[str, str]:
    """Return this process's environment, but with bytecode caches enabled."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    paths = os.environ.get("PYTHONPATH")
    return kept if paths is None else kept | {"PYTHONPATH": paths}


def cpu_ms(command: list[str], folder: Path) -> float:
    """Return user and system time of one process."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    # `leaks` exits with 5, because there are no steps to judge.
    if process.returncode not in (0, 5):
        raise NotMeasuredError(f"{command[-2:]} ended with {process.returncode}: {said[-200:]!r}")
    return (used.ru_utime + used.ru_stime) * 1000


def times(file: Path, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of CPU time per command and round, without the first round."""
    commands = {name: [sys.executable, "-c", code] for name, code in BASES.items()}
    for name in ("--version", "peak", "report", "summary", "leaks"):
        commands[name] = [sys.executable, "-c", RUN, *arguments(name, file)]
    found: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            ms = cpu_ms(command, file.parent)
            if number:
                found[name].append(ms)
    return found


def modules(command: str, file: Path, *options: str) -> set[str]:
    """Return the modules that a command imports beyond those it is compared with."""
    base = _named(LISTED.format("click" if COUNTED.get(command) == "click" else "sys"), file)
    return _named(NAMED, file, *arguments(command, file), *options) - base


def _named(code: str, file: Path, *given: str) -> set[str]:
    command = [sys.executable, "-c", code, *given]
    done = subprocess.run(
        command, cwd=file.parent, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotMeasuredError(f"{given} ended with {done.returncode}: {done.stderr[-200:]}")
    return set(done.stderr.split())


def instructions(file: Path) -> dict[str, int]:
    """Return the lowest of a few counts of each command, minus that of `import click` for commands
    compared with it.
    """
    processes: dict[str, tuple[str, ...]] = {"click": (BASES["click"],)}
    processes |= {name: (RUN, *arguments(name, file)) for name in COUNTED}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {
            name: [pool.submit(count, *process, folder=file.parent) for _ in range(RUNS)]
            for name, process in processes.items()
        }
        least = {name: min(run.result() for run in of_one) for name, of_one in runs.items()}
    return {
        name: least[name] - (least[base] if base == "click" else 0)
        for name, base in COUNTED.items()
    }


def conditions() -> dict[str, str]:
    """Return the conditions, other than the source, that affect the counts."""
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "compiler": compiler(),
        "machine": platform.machine(),
    }


def numbers_of_modules(file: Path) -> dict[str, dict[str, int]]:
    """Return how many modules each command imports: memreplay's own modules, and all modules."""
    names = {command: modules(command, file) for command in COUNTED}
    return {
        "own modules": {
            command: sum(one.split(".")[0] == "memreplay" for one in found)
            for command, found in names.items()
        },
        "modules": {command: len(found) for command, found in names.items()},
    }


def judge(found: dict[str, dict[str, int]], before: dict[str, object], differing: list[str]) -> int:
    """Print the comparison and return the exit code. Module counts are exact, except for other
    Python versions.
    """
    code = 0
    if differing:
        print(f"warning: recorded under another {', '.join(differing)}")
    for kind, counts in found.items():
        known = before.get(kind)
        if not isinstance(known, dict):
            raise NotMeasuredError(f"{FIGURE.name} is damaged: write it anew with --update")
        if kind == "instructions":
            allowed = ALLOWED_ELSEWHERE if differing else ALLOWED
        else:
            allowed = 0.0
        for command, number in counts.items():
            print(
                f"{command}: {number:,} {kind}, before {known[command]:,};"
                f" {allowed:.0%} more allowed"
            )
            if kind == "modules" and "python" in differing:
                continue  # another Python's standard library imports different modules
            if number > known[command] * (1 + allowed):
                print("too many: find out why, or accept it with --update", file=sys.stderr)
                code = 1
    return code


def show(file: Path, rounds: int) -> None:
    """Print times."""
    found = times(file, rounds)
    click = found["click"]
    print(f"CPU of {rounds} in turns:")
    for name, every in found.items():
        beyond = statistics.median(a - b for a, b in zip(every, click, strict=True))
        least = min(every) - min(click)
        print(
            f"  {name:10} median {statistics.median(every):6.1f} ms, click and {beyond:+6.1f};"
            f" least {min(every):6.1f} ms, click and {least:+6.1f}"
        )


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is recorded")
    parser.add_argument("--update", action="store_true", help="record modules and instructions")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes of each command")
    args = parser.parse_args(given)
    try:
        if args.check and not FIGURE.exists():
            raise NotMeasuredError(f"there is no {FIGURE.name}: write it with --update")
        with snapshot() as file:
            if not (args.check or args.update):
                show(file, args.rounds)
            here, counts = conditions(), numbers_of_modules(file)
            try:
                counts["instructions"] = instructions(file)
            except NotMeasuredError as error:
                if args.update:
                    raise
                print(error, file=sys.stderr)
    except NotMeasuredError as error:
        print(error, file=sys.stderr)
        return 2
    if args.update:
        FIGURE.write_text(json.dumps({**here, **counts}, indent=2) + "\n", encoding="utf-8")
        print(f"written to {FIGURE.name}")
        return 0
    if args.check:
        before = json.loads(FIGURE.read_text(encoding="utf-8"))
        differing = [name for name, value in here.items() if before.get(name) != value]
        try:
            return judge(counts, before, differing)
        except NotMeasuredError as error:
            print(error, file=sys.stderr)
            return 2
    for kind, numbers in counts.items():
        print(f"{kind}: " + ", ".join(f"{name} {number:,}" for name, number in numbers.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
