"""Time memreplay, pickle.load, any installed peers, and limits that no reader can beat.

    python bench/compare.py --sizes 25,100 --rounds 3
    python bench/compare.py --json results.json big.pkl
    python bench/compare.py --commands --sizes 100

Each measurement is a whole process: start, imports, result, exit. Rows marked * measure their own
time, without start and imports. The commands take turns (A B C, A B C, …), so that a machine that
slows down affects all of them; the table shows medians. Every file is read once beforehand, so that
it's in the page cache for all commands. The machine's limits are measured if a C compiler and zstd
are installed.

--commands times memreplay's own commands, each relative to `peak`. --ways times the ways to pass a
snapshot to `memreplay.open`, each relative to passing its path.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
GENERATOR = ("generate.py", "pickle_writers.py", "sim_*.py")
CHUNK = 1 << 20

OPEN = "import gzip, sys; p = sys.argv[1]; f = (gzip.open if p.endswith('.gz') else open)(p, 'rb');"
LOAD = f"{OPEN} import pickle; pickle.load(f)"
LOAD_NO_GC = f"import gc; gc.disable(); {LOAD}"
# This script times itself: reading and parsing, with memreplay already imported.
PARSE = (
    "import sys, time, memreplay; memreplay.open; begin = time.perf_counter();"
    "memreplay.open(sys.argv[1]); print(time.perf_counter() - begin, file=sys.stderr)"
)
READ = (
    f"import sys; f = open(sys.argv[1], 'rb', 0); b = bytearray({CHUNK})\nwhile f.readinto(b): pass"
)

# This script also times itself: it opens a source made as in WAYS, with memreplay already imported.
FROM = (
    "import sys, time, memreplay; memreplay.open; name = sys.argv[1]; {make};"
    "begin = time.perf_counter(); memreplay.open(source);"
    "print(time.perf_counter() - begin, file=sys.stderr)"
)
MAPPED = "import mmap; f = open(name, 'rb'); source = mmap.mmap(f.fileno(), 0, access=1)"
# Inputs that --ways times, `path` first. If marked with +, the caller also holds the file's bytes.
WAYS = {
    "path": "source = name",
    "open file": "source = open(name, 'rb')",
    "bytes +": "source = open(name, 'rb').read()",
    "bytearray +": "import os; source = bytearray(os.stat(name).st_size);"
    "open(name, 'rb', 0).readinto(source)",
    "memoryview +": "source = memoryview(open(name, 'rb').read())",
    "BytesIO +": "import io; source = io.BytesIO(open(name, 'rb').read())",
    "mmap +": MAPPED,
    "memoryview of mmap +": f"{MAPPED}; source = memoryview(source)",
}

# Commands that --commands times, `peak` first. Commands that this version doesn't have are left
# out.
OWN = (
    ("peak",),
    ("peak", "--measure", "held"),
    ("peak", "--measure", "active"),
    ("peak", "--measure", "reserved"),
    ("summary",),
    ("peak", "--by", "category,file"),
    ("at", "end", "--list"),
    ("peak", "--tree"),
    ("peak", "--include", "forward"),
    ("report",),
    ("peak", "--rules"),
    ("diff", "FILE"),
    ("timeline",),
    ("gate", "--max-peak", "1TiB"),
    ("baseline",),
    ("fragmentation", "--segments"),
    ("fragmentation",),
    ("oom",),
    ("simulate", "--set", "expandable_segments:True"),
    ("simulate", "--search", "settings"),
    ("simulate", "--search", "card"),
    ("plan", "--fit", "24GiB"),
    ("fleet",),
    ("steps",),
    ("leaks",),
    ("allocations",),
    ("export", "--format", "pickle", "--from", "1000", "--to", "11000"),
    ("export", "--format", "pickle"),
    ("export", "--format", "pickle", "--protocol", "2"),
    ("export", "--format", "txt"),
    ("sql", "select line, sum(bytes) from flat group by line"),
    ("view", "-o", "-"),
    ("export", "--format", "parquet", "-o", "OUT"),
    ("export", "--format", "collapsed"),
    ("export", "--format", "perfetto"),
)
THEIRS = "from memreplay.commands.app import COMMANDS; print(*COMMANDS)"


@dataclass(frozen=True)
class Command:
    """A command to time. In its arguments, FILE is replaced by the snapshot, PACKED by its .zst
    file, TABLES by a folder with its tables in Arrow format, and OUT by a folder that doesn't
    exist.
    """

    name: str
    arguments: tuple[str, ...]
    # Whether the command prints its own time in seconds as the last line of stderr.
    times_itself: bool = False
    # If a tool leaves a cache next to the file, it gets a new link to the file each time.
    fresh_link: bool = False


@dataclass(frozen=True)
class Result:
    """One command's result for one file."""

    command: str
    seconds: float
    mb_per_second: float
    ns_per_byte: float
    peak_rss_bytes: int
    ratio: float
    runs_s: tuple[float, ...]


class Run(NamedTuple):
    """One run: wall seconds (or the command's own time), CPU seconds, and peak memory."""

    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


class CommandFailedError(Exception):
    """A command exited with an error."""


def commands(python: str) -> list[Command]:
    """Return memreplay, the yardsticks, any peer installed in this Python, and the limits."""
    peak = (python, "-m", "memreplay", "peak", "FILE", "--format", "json")
    found = [
        Command("memreplay peak", peak),
        Command("memreplay.open *", (python, "-c", PARSE, "FILE"), times_itself=True),
        Command("read in 1 MiB chunks", (python, "-c", READ, "FILE")),
        Command("pickle.load", (python, "-c", LOAD, "FILE")),
        Command("pickle.load, gc off", (python, "-c", LOAD_NO_GC, "FILE")),
    ]
    path = os.pathsep.join((str(Path(python).parent), os.environ.get("PATH", "")))
    if ptmem := shutil.which("ptmem", path=path):
        found.append(Command("ptmem --summary", (ptmem, "--summary", "FILE"), fresh_link=True))
    if mosaic := shutil.which("mosaic_get_memory_usage_peak", path=path):
        found.append(Command("mosaic peak", (mosaic, "--snapshot", "FILE")))
    # Check in a separate process, because this process's imports would count towards the children's
    # memory.
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    if subprocess.run([python, "-c", probe], check=False).returncode == 0:
        viz = (python, "-m", "torch.cuda._memory_viz", "stats", "FILE")
        found.append(Command("_memory_viz stats", viz))
    if zstd := shutil.which("zstd"):
        packed = tuple("PACKED" if part == "FILE" else part for part in peak)
        if subprocess.run([python, "-c", "import zstandard"], check=False).returncode == 0:
            found.append(Command("memreplay peak, .zst", packed))
        found.append(Command("zstd -d", (zstd, "-dqc", "PACKED")))
    if limits := compiled(HERE / "limits.c"):
        found.append(Command("bare opcode walk in C", (limits, "walk", "FILE")))
        found.append(Command("memcpy *", (limits, "copy", "FILE"), times_itself=True))
    return found


def own_commands(python: str) -> list[Command]:
    """Return the commands in OWN that this version of memreplay has."""
    asked = subprocess.run([python, "-c", THEIRS], check=True, capture_output=True, text=True)
    there = asked.stdout.split()
    found = [
        Command(" ".join(words), (python, "-m", "memreplay", words[0], "FILE", *words[1:]))
        for words in OWN
        if words[0] in there
    ]
    if "export" in there:
        found.append(Command("peak TABLES", (python, "-m", "memreplay", "peak", "TABLES")))
    return found


def ways_in(python: str) -> list[Command]:
    """Return the ways to pass a snapshot."""
    return [
        Command(name, (python, "-c", FROM.format(make=make), "FILE"), times_itself=True)
        for name, make in WAYS.items()
    ]


def fitting(todo: list[Command], file: Path) -> list[Command]:
    """Return the commands that have a result for the file, always including the first; print why
    the others don't.
    """
    run(todo[0], file)  # if this command fails, so would its later runs
    return [todo[0], *(command for command in todo[1:] if answers(command, file))]


def answers(command: Command, file: Path) -> bool:
    if set(MADE) & set(command.arguments):
        return True  # its input is created later, from files that can be read
    try:
        run(command, file)
    except CommandFailedError as error:
        print(f"left out: {error}", file=sys.stderr)
        return False
    return True


def compiled(source: Path) -> str | None:
    """Compile the program in `source` if it has changed; return None without a compiler."""
    program = DATA / source.stem
    if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
        return str(program)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    DATA.mkdir(exist_ok=True)
    subprocess.run([compiler, "-O3", "-o", str(program), str(source)], check=True)
    return str(program)


def packed(file: Path, folder: Path) -> Path:
    """Return `file` compressed with zstd."""
    target = folder / f"{file.name}.zst"
    zstd = shutil.which("zstd") or "zstd"
    subprocess.run([zstd, "-q", "-f", str(file), "-o", str(target)], check=True)
    return target


def tables(file: Path, folder: Path) -> Path:
    """Return the folder with `file`'s tables, exported by memreplay."""
    target = folder / "tables"
    export = (sys.executable, "-m", "memreplay", "export", str(file), "--format", "arrow")
    subprocess.run([*export, "-o", str(target)], check=True)
    return target


MADE = {"PACKED": packed, "TABLES": tables}


def run(command: Command, file: Path, made: Mapping[str, Path] | None = None) -> Run:
    """Run a command once; `made` maps placeholders in its arguments to files."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        target = file
        if command.fresh_link:
            target = Path(folder) / file.name
            target.symlink_to(file)
        named = {"FILE": str(target), "OUT": str(Path(folder) / "out")}
        named |= {word: str(path) for word, path in (made or {}).items()}
        arguments = [named.get(part, part) for part in command.arguments]
        with Path(os.devnull).open("r+b") as null:
            begin = time.perf_counter()
            # Don't fork, because a forked child's peak memory would start at this process's peak.
            pid = os.posix_spawn(
                arguments[0],
                arguments,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, null.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, null.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
                ],
            )
            _, status, usage = os.wait4(pid, 0)
            seconds = time.perf_counter() - begin
        code = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "no message"
        if command.times_itself and not code:
            seconds = float(last)
        if code:
            raise CommandFailedError(f"{command.name} ended with {code} on {file.name}: {last}")
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Run(seconds, cpu_seconds, usage.ru_maxrss * kilobytes())


def kilobytes() -> int:
    """Convert ru_maxrss to KiB; it's in bytes on macOS and in KiB elsewhere."""
    return 1 if sys.platform == "darwin" else 1024


def median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def compare(file: Path, todo: list[Command], rounds: int) -> list[Result]:
    """Run all commands on one file, taking turns."""
    run(Command("read", (sys.executable, "-c", READ, "FILE")), file)
    with tempfile.TemporaryDirectory() as folder:
        words = {word for command in todo for word in command.arguments}
        made = {word: make(file, Path(folder)) for word, make in MADE.items() if word in words}
        return measure(file, made, todo, rounds)


def measure(file: Path, made: Mapping[str, Path], todo: list[Command], rounds: int) -> list[Result]:
    seconds: dict[str, list[float]] = {command.name: [] for command in todo}
    rss: dict[str, int] = dict.fromkeys(seconds, 0)
    for number in range(rounds):
        for command in todo:
            show_progress(f"{file.name}: round {number + 1}, {command.name} …")
            elapsed, _, peak = run(command, file, made)
            seconds[command.name].append(elapsed)
            rss[command.name] = max(rss[command.name], peak)
    show_progress("")
    first = median(seconds[todo[0].name])
    size = file.stat().st_size / 1e6
    return [
        Result(
            name,
            median(runs),
            size / median(runs),
            median(runs) / size * 1e3,
            rss[name],
            median(runs) / first,
            tuple(runs),
        )
        for name, runs in seconds.items()
    ]


def show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def render_table(file: Path, results: list[Result], rounds: int) -> str:
    size = file.stat().st_size / 1e6
    first = results[0].command.removeprefix("memreplay ")
    lines = [
        f"{file.name}: {size:.1f} MB, median of {rounds}",
        f"  {'':<24}{'seconds':>9}{'MB/s':>9}{'ns/byte':>9}{'peak RSS':>12}{first + ' = 1':>10}",
    ]
    lines += [
        f"  {r.command:<24}{r.seconds:>9.3f}{r.mb_per_second:>9.0f}"
        f"{r.ns_per_byte:>9.3f}{r.peak_rss_bytes / 2**20:>8.0f} MiB{r.ratio:>10.2f}"
        for r in results
    ]
    return "\n".join(lines)


def generated(megabytes: int, *options: str) -> Path:
    """Return the file of this size in bench/data; generate it if it's missing or older than its
    generator.
    """
    path = DATA / f"{megabytes}mb{''.join(options)}.pkl"
    sources = [source for pattern in GENERATOR for source in HERE.glob(pattern)]
    newest = max(source.stat().st_mtime for source in sources)
    if not path.exists() or path.stat().st_mtime < newest:
        DATA.mkdir(exist_ok=True)
        part = path.with_suffix(".part")
        script = str(HERE / "generate.py")
        subprocess.run(
            [sys.executable, script, "--mb", str(megabytes), "-o", str(part), *options], check=True
        )
        part.replace(path)
    return path


def sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="snapshots; without any, --sizes")
    parser.add_argument(
        "--sizes", type=sizes, default=[25, 100, 500], help="MB of generated ones: 25,100,500"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write JSON as well; - or none: only"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--commands", action="store_true", help="memreplay's own commands beside `peak` instead"
    )
    other.add_argument(
        "--ways", action="store_true", help="the ways to hand a snapshot over, beside its path"
    )
    args = parser.parse_args(arguments)
    if args.rounds < 1:
        parser.error("--rounds must be 1 or more")
    files = args.files or [generated(megabytes) for megabytes in args.sizes]
    yardsticks = own_commands if args.commands else ways_in if args.ways else commands
    todo = yardsticks(sys.executable)
    document: list[dict[str, object]] = []
    try:
        for file in files:
            timed = fitting(todo, file) if args.commands else todo
            results = compare(file, timed, args.rounds)
            size = file.stat().st_size
            document.append(
                {
                    "file": file.name,
                    "file_bytes": size,
                    "rounds": args.rounds,
                    "results": [asdict(result) for result in results],
                }
            )
            if args.json != "-":
                print(render_table(file, results, args.rounds), flush=True)
    except (CommandFailedError, OSError) as error:
        show_progress("")
        print(error, file=sys.stderr)
        return 1
    # A process inherits the peak of the process that spawned it, so lower peaks can't be measured.
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobytes()
    if args.json == "-":
        json.dump(document, sys.stdout, indent=2)
        print()
    else:
        if args.ways:
            print("+ the file's bytes, which the caller holds, are part of peak RSS")
        print(f"peak RSS is measured from {floor / 2**20:.0f} MiB up")
        if args.json:
            Path(args.json).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
