"""Measure every figure with a target, and print where it stands, in one table.

    python bench/standing.py
    python bench/standing.py --sizes small,100 --rounds 5 --real snap.pkl

A figure compares two commands (or a command and the file's size), which take turns in one run,
because machines are noisy. Times are minima of CPU seconds, unless it says wall; memory is the
highest peak RSS. `ptmem`, `mosaic` and PyTorch's own tool are included if they're installed.
docs/performance.md explains the figures. --builds also measures builds from nothing, which takes
minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from compare import (
    LOAD,
    LOAD_NO_GC,
    Command,
    CommandFailedError,
    Run,
    answers,
    commands,
    generated,
    run,
    show_progress,
)

ROOT = Path(__file__).resolve().parent.parent
MB = 1e6
FASTER, SMALLER = ">=", "<="
SMALL = 4  # MB; most files that people look at are about this large


class Figure(NamedTuple):
    """A figure with its target. `value` computes it from the runs of `ours` and `other`."""

    name: str
    size: int
    """MB of the generated file."""
    ours: Command
    other: Command | None
    value: Callable[[list[Run], list[Run], int], float]
    unit: str
    direction: str
    target: float | None
    """None for a peer: it only has to be slower."""
    options: tuple[str, ...] = ()
    """Options of bench/generate.py for the file."""


def own(*words: str) -> Command:
    """Return one of memreplay's commands."""
    return Command(
        " ".join(words), (sys.executable, "-m", "memreplay", words[0], "FILE", *words[1:])
    )


def cpu(runs: list[Run]) -> float:
    return min(one.cpu_seconds for one in runs)


def wall(runs: list[Run]) -> float:
    return min(one.seconds for one in runs)


def rss(runs: list[Run]) -> int:
    return max(one.peak_rss_bytes for one in runs)


def times_slower(ours: list[Run], other: list[Run], _size: int) -> float:
    return wall(other) / wall(ours)


def seconds(ours: list[Run], _other: list[Run], _size: int) -> float:
    return wall(ours)


def added_milliseconds(ours: list[Run], other: list[Run], _size: int) -> float:
    return 1e3 * (cpu(ours) - cpu(other))


def megabytes_per_second(ours: list[Run], _other: list[Run], size: int) -> float:
    return size / MB / cpu(ours)


def of_the_file(ours: list[Run], _other: list[Run], size: int) -> float:
    return rss(ours) / size


def of_memory(ours: list[Run], other: list[Run], _size: int) -> float:
    return rss(ours) / rss(other)


PEAK = own("peak")
PICKLE = Command("pickle.load", (sys.executable, "-c", LOAD, "FILE"))
NO_COLLECTOR = Command("pickle.load, collector off", (sys.executable, "-c", LOAD_NO_GC, "FILE"))
CLICK = Command("python and click", (sys.executable, "-c", "import click", "FILE"))
WITH_ARROW = Command(
    "peak and pyarrow",
    (
        sys.executable,
        "-c",
        "import sys, pyarrow.parquet, memreplay.__main__; memreplay.__main__.run()",
        "peak",
        "FILE",
    ),
)
LARGE = 500
FIGURES = (
    Figure("`peak` against pickle.load", LARGE, PEAK, PICKLE, times_slower, "x", FASTER, 40),
    Figure("… with its collector off", LARGE, PEAK, NO_COLLECTOR, times_slower, "x", FASTER, 13),
    Figure("`peak` against pickle.load", 100, PEAK, PICKLE, times_slower, "x", FASTER, 20),
    Figure(
        "`peak` beyond Python and click", SMALL, PEAK, CLICK, added_milliseconds, "ms", SMALLER, 25
    ),
    *(
        Figure(
            f"`{name}` beyond Python and click",
            SMALL,
            own(name),
            CLICK,
            added_milliseconds,
            "ms",
            SMALLER,
            most,
        )
        for name, most in (("report", 60), ("summary", 40), ("oom", 60))
    ),
    Figure(
        "new stacks, per CPU second",
        50,
        PEAK,
        None,
        megabytes_per_second,
        "MB/s",
        FASTER,
        544,
        ("--new-stacks",),
    ),
    Figure(
        "`report`, share of the file", LARGE, own("report"), None, of_the_file, "", SMALLER, 0.45
    ),
    Figure(
        "`view`, share of the file",
        LARGE,
        own("view", "-o", "-"),
        None,
        of_the_file,
        "",
        SMALLER,
        0.45,
    ),
    Figure(
        "export to Parquet against `peak` and pyarrow",
        LARGE,
        own("export", "--format", "parquet", "-o", "OUT"),
        WITH_ARROW,
        of_memory,
        "x",
        SMALLER,
        1.3,
    ),
    Figure(
        "export to a pickle against `peak`",
        LARGE,
        own("export", "--format", "pickle", "-o", "OUT"),
        PEAK,
        of_memory,
        "x",
        SMALLER,
        1.3,
    ),
    Figure(
        "`simulate --search card`, wall",
        100,
        own("simulate", "--search", "card"),
        None,
        seconds,
        "s",
        SMALLER,
        3,
    ),
    Figure(
        "`simulate --search card`, wall",
        LARGE,
        own("simulate", "--search", "card"),
        None,
        seconds,
        "s",
        SMALLER,
        12,
    ),
    Figure("`plan`, wall", 100, own("plan", "--fit", "24GiB"), None, seconds, "s", SMALLER, 10),
    Figure(
        "`simulate --search settings`, wall",
        100,
        own("simulate", "--search", "settings"),
        None,
        seconds,
        "s",
        SMALLER,
        3,
    ),
)


def peers() -> list[Figure]:
    """Return a figure for each installed peer."""
    found = commands(sys.executable)
    theirs = ("ptmem", "mosaic", "_memory_viz")
    return [
        Figure(f"`peak` against {one.name}", 100, PEAK, one, times_slower, "x", FASTER, None)
        for one in found
        if one.name.startswith(theirs)
    ]


def measured(figures: list[Figure], file: Path, rounds: int) -> dict[str, list[Run]]:
    """Run the commands of all figures that share a file, taking turns."""
    todo = {one.name: one for figure in figures for one in (figure.ours, figure.other) if one}
    kept = [one for one in todo.values() if answers(one, file)]
    found: dict[str, list[Run]] = {one.name: [] for one in kept}
    for number in range(rounds):
        for one in kept:
            show_progress(f"{file.name}: round {number + 1}, {one.name} …")
            found[one.name].append(run(one, file))
    show_progress("")
    return found


def row(name: str, where: str, value: float, figure: tuple[str, str, float | None]) -> str:
    unit, direction, target = figure
    bound = 1.0 if target is None else target
    met = value >= bound if direction == FASTER else value <= bound
    shown = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    wanted = "faster" if target is None else f"{direction} {target:g} {unit}".strip()
    return f"| {name} | {where} | {shown} {unit} | {wanted} | {'yes' if met else 'no'} |"


def stand(figures: list[Figure], rounds: int, real: Path | None) -> list[str]:
    """Return the table's rows."""
    rows: list[str] = []
    files: dict[tuple[int, tuple[str, ...]], list[Figure]] = {}
    for figure in figures:
        files.setdefault((figure.size, figure.options), []).append(figure)
    for (size, options), some in files.items():
        file = real if real is not None and size == SMALL else generated(size, *options)
        runs = measured(some, file, rounds)
        for figure in some:
            other = [] if figure.other is None else runs.get(figure.other.name, [])
            if figure.ours.name not in runs or (figure.other is not None and not other):
                continue
            value = figure.value(runs[figure.ours.name], other, file.stat().st_size)
            rows.append(row(figure.name, file.name, value, figure[5:8]))
    return rows


def builds() -> list[str]:
    """Build from nothing, in a copy of the committed files, without ccache."""
    rows = []
    environment = {name: text for name, text in os.environ.items() if name != "CYTHON_CACHE_DIR"}
    environment |= {"CC": "gcc", "CCACHE_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for name, most, command in (
            ("`pip install .`", 60, "python3 -m venv v && v/bin/pip install --quiet ."),
            ("`make demo`", 75, "make demo"),
            ("`make test` after it", 120, "make .venv/built.stamp && make test"),
        ):
            copy = Path(folder, "demo" if "make" in name else "pip")
            if not copy.exists():
                subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
            show_progress(f"{name} …")
            begin = time.perf_counter()
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=copy,
                env=environment,
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            show_progress("")
            spent = time.perf_counter() - begin
            if done.returncode:
                raise CommandFailedError(f"{name} ended with {done.returncode}")
            rows.append(row(name, "", spent, ("s", SMALLER, most)))
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def size_of(text: str) -> int:
    return SMALL if text == "small" else int(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", help="only figures with files of these sizes: small,50,100,500")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--real", type=Path, help="use this file instead of the small one")
    parser.add_argument("--builds", action="store_true", help="also measure builds")
    args = parser.parse_args(arguments)
    if args.rounds < 1:
        parser.error("--rounds must be 1 or more")
    chosen = [*FIGURES, *peers()]
    if args.sizes is not None:
        wanted = {size_of(one) for one in args.sizes.split(",") if one}
        chosen = [figure for figure in chosen if figure.size in wanted]
    try:
        rows = stand(chosen, args.rounds, args.real)
        rows += builds() if args.builds else []
    except (CommandFailedError, OSError, subprocess.CalledProcessError) as error:
        show_progress("")
        print(error, file=sys.stderr)
        return 1
    print("| figure | file | now | target | met |", "|---|---|---|---|---|", *rows, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
