"""Check whether time and memory grow linearly with the number of one kind of item.

    python bench/scale.py                      a hundredth of the sizes below, in a minute or two
    python bench/scale.py --scale 1 --of events,pools

For each kind, this generates a file with that many items and one with a quarter of them; each
command reads both. The table shows CPU seconds and peak RSS for the larger file, and their ratio to
the smaller file's. The cost of a tiny file is subtracted from both, so a ratio of 4 is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compare import HERE, Command, CommandFailedError, Run, own_commands, run

BASE = 0x7F0000000000
FRAME = {"filename": "model.py", "line": 7, "name": "forward"}
PART = 4
# Below these values, a command's startup hides everything else.
LEAST_SECONDS, LEAST_BYTES = 0.15, 8 << 20

# Error messages that are accepted: a documented limit, or an empty result.
EXPECTED = re.compile(r"over the limit of |ended with 5 on |no events in --from|matches no frame")

Snapshot = dict[str, Any]
Make = Callable[[int, Path], None]


def generated(*options: str) -> Make:
    """Generate a file with bench/generate.py."""

    def make(count: int, path: Path) -> None:
        command = [
            sys.executable,
            str(HERE / "generate.py"),
            "-o",
            str(path),
            "--events",
            str(count),
        ]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)

    return make


def pickled(build: Callable[[int], Snapshot]) -> Make:
    """Write a snapshot with Python's pickle."""

    def make(count: int, path: Path) -> None:
        with path.open("wb") as file:
            pickle.dump(build(count), file, 4)

    return make


def event(action: str, addr: int, size: int, at: int, pool: tuple[int, int] = (0, 0)) -> Snapshot:
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": EPOCH + at,
        "frames": FRAMES,
        "pool_id": pool,
    }


FRAMES = [FRAME]
EPOCH = 1_700_000_000_000_000
LIFE = ("alloc", "free_requested", "free_completed")


def segment(number: int, device: int, live: int, pool: tuple[int, int] = (0, 0)) -> Snapshot:
    """Return a segment of 2 MiB whose first `live` bytes are allocated."""
    address = BASE + (number << 22)
    used = {"address": address, "size": live, "requested_size": live, "frames": FRAMES}
    rest = {"address": address + live, "size": (2 << 20) - live, "requested_size": 0, "frames": []}
    return {
        "device": device,
        "address": address,
        "total_size": 2 << 20,
        "allocated_size": live,
        "active_size": live,
        "requested_size": live,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": pool,
        "is_expandable": False,
        "frames": [],
        "blocks": [{**used, "state": "active_allocated"}] * (live > 0)
        + [{**rest, "state": "inactive"}] * (live < 2 << 20),
    }


def whole(segments: list[Snapshot], traces: list[list[Snapshot]], noted: Any = ()) -> Snapshot:
    return {"segments": segments, "device_traces": traces, "external_annotations": list(noted)}


def segments(count: int) -> Snapshot:
    """Write many segments, each with one live allocation."""
    trace: list[Snapshot] = []
    for i in range(count):
        at = BASE + (i << 22)
        trace += [event(action, at, 2 << 20, i) for action in ("segment_alloc", "alloc")]
    return whole([segment(i, 0, 2 << 20) for i in range(count)], [trace])


def devices(count: int) -> Snapshot:
    """Write many devices, each with a few events and a segment."""
    traces = []
    for i in range(count):
        at = BASE + (i << 22)
        first = [event("segment_alloc", at, 2 << 20, 0), event("alloc", at, 512, 1)]
        more = [
            event(action, at + 512, 512, 2)
            for action in ("alloc", "free_requested", "free_completed")
        ]
        traces.append(first + more)
    return whole([segment(i, i, 512) for i in range(count)], traces)


def steps(count: int) -> Snapshot:
    """Write many annotations that begin and end steps, with one allocation in each step."""
    noted, trace = [], [event("segment_alloc", BASE, 2 << 20, 0)]
    for i in range(count // 2):
        for stage, at in (("START", 10 * i), ("END", 10 * i + 9)):
            name, time_us = f"ProfilerStep#{i}", EPOCH + at
            noted.append({"stage": stage, "name": name, "device": 0, "time_us": time_us})
        trace += [event(action, BASE, 512, 10 * i + 1) for action in LIFE]
    return whole([segment(0, 0, 0)], [trace], noted)


def pools(count: int) -> Snapshot:
    """Write many pools. Each except the last allocates a segment with one allocation, and frees
    both.
    """
    trace = [event("segment_alloc", BASE + (1 << 22), 2 << 20, 0)]
    for i in range(1, count):
        pool = (0, i)
        trace.append(event("segment_alloc", BASE, 2 << 20, i, pool))
        trace += [event(action, BASE, 512, i, pool) for action in LIFE]
        trace.append(event("segment_free", BASE, 2 << 20, i, pool))
    return whole([segment(1, 0, 0)], [trace])


KINDS: dict[str, tuple[int, Make]] = {
    "events": (50_000_000, generated("--frame-poor", "--writer", "cpp")),
    "stacks": (5_000_000, generated("--new-stacks", "--depth", "12")),
    "segments": (200_000, pickled(segments)),
    "devices": (10_000, pickled(devices)),
    "annotations": (1_000_000, pickled(steps)),
    "pools": (1_000_000, pickled(pools)),
}


@dataclass(frozen=True)
class Row:
    """One command's results for one kind."""

    kind: str
    count: int
    command: str
    seconds: float
    peak_rss_bytes: int
    times: float  # CPU time relative to a quarter of the items; 0 if meaningless
    memory_times: float
    refused: str = ""


def above(more: float, less: float, base: float, least: float) -> float:
    """Return the ratio of `more` to `less` after subtracting an empty file's cost from both; 0 if
    that's meaningless.
    """
    return (more - base) / (less - base) if less - base >= least else 0.0


def named(kind: str, count: int, folder: Path) -> Path:
    return folder / f"{kind}-{count}.pkl"


def rows(
    kind: str, scale: float, folder: Path, todo: list[Command], base: dict[str, Run]
) -> Iterator[Row]:
    """Run each command on a file of this kind, and on one with a quarter of the items."""
    count = int(KINDS[kind][0] * scale)
    files = {}
    for of in (count // PART, count):
        files[of] = named(kind, of, folder)
        if not files[of].exists():
            # Generate it in a separate process, because children start with this process's peak
            # memory.
            asked = [sys.executable, __file__, "--make", kind, str(of), "--folder", str(folder)]
            subprocess.run(asked, check=True)
    for command in todo:
        try:
            less, more = (run(command, file) for file in files.values())
        except CommandFailedError as error:
            yield Row(kind, count, command.name, 0, 0, 0, 0, str(error))
            continue
        nothing = base[command.name]
        yield Row(
            kind,
            count,
            command.name,
            more.cpu_seconds,
            more.peak_rss_bytes,
            above(more.cpu_seconds, less.cpu_seconds, nothing.cpu_seconds, LEAST_SECONDS),
            above(more.peak_rss_bytes, less.peak_rss_bytes, nothing.peak_rss_bytes, LEAST_BYTES),
        )


def line(row: Row) -> str:
    if row.refused:
        return f"  {row.command:<50} {row.refused}"
    times, memory = (f"{of:.1f}" if of else "" for of in (row.times, row.memory_times))
    mib = row.peak_rss_bytes / 2**20
    return f"  {row.command:<50}{row.seconds:>9.2f} s{times:>6}{mib:>9.0f} MiB{memory:>6}"


def measured(command: Command, small: Path, otherwise: Command) -> Run:
    """Return a command's cost for a tiny file, or another command's if the first has no result for
    it.
    """
    try:
        return run(command, small)
    except CommandFailedError:
        return run(otherwise, small)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--scale", type=float, default=0.01, help="of the sizes (0.01)")
    add("--of", default=",".join(KINDS), help="only these kinds")
    add("--commands", default="", help="only commands that start with one of these: peak,view")
    add("--most", type=float, default=10, help="most growth of time or memory (10)")
    add("--folder", type=Path, help="folder for the generated files, which are kept")
    add("--json", type=Path, help="write all rows there")
    add("--make", nargs=2, metavar=("KIND", "COUNT"), help="make this file, and no table")
    options = parser.parse_args(arguments)
    if options.make:
        kind, count = options.make[0], int(options.make[1])
        KINDS[kind][1](count, named(kind, count, options.folder))
        return 0
    todo = own_commands(sys.executable)
    if options.commands:
        todo = [one for one in todo if one.name.startswith(tuple(options.commands.split(",")))]
    todo = [one for one in todo if "TABLES" not in one.arguments]
    found: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder: Path = options.folder or Path(scratch)
        small = Path(scratch) / "small.pkl"
        with small.open("wb") as file:
            pickle.dump(segments(200), file)
        base = {command.name: measured(command, small, todo[0]) for command in todo}
        for kind in options.of.split(","):
            print(f"{kind}: {int(KINDS[kind][0] * options.scale):,}", flush=True)
            for row in rows(kind, options.scale, folder, todo, base):
                found.append(row)
                print(line(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    grown = [row for row in found if max(row.times, row.memory_times) > options.most]
    for row in grown:
        print(f"grows by more than {options.most:g} of {PART}: {row.kind}, {row.command}")
    failed = [row for row in found if row.refused and not EXPECTED.search(row.refused)]
    for row in failed:
        print(f"fails: {row.kind}, {row.command}: {row.refused}")
    return bool(grown or failed)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
