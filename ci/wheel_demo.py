"""Try an installed wheel with only its own dependencies: `wheel_demo.py EXAMPLE.pkl.gz`.

Uses only the standard library and the wheel, so it runs in any environment on any platform. Numbers
are compared with a replay of the unpickled example in Python.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import memreplay


class Replayed(NamedTuple):
    """The example's first device as Python's pickle reads it."""

    events: int
    peak_bytes: int
    event_index: int
    start_bytes: int
    end_bytes: int


class Ended(NamedTuple):
    """The outcome of a command."""

    code: int
    stdout: str
    stderr: str


class Demo:
    """The commands, run in a temporary folder, and their failures."""

    def __init__(self, example: Path, folder: Path) -> None:
        self.example, self.folder = str(example), folder
        self.ran: int = 0
        self.wrong: list[str] = []

    def run(self, *arguments: str, code: int = 0) -> Ended:
        """Run a command in this process. It must exit with `code` and without a traceback."""
        from click.testing import CliRunner

        from memreplay.commands.app import app

        # Before click 8.2, stdout and stderr were mixed by default.
        apart = "mix_stderr" in signature(CliRunner).parameters
        runner = CliRunner(mix_stderr=False) if apart else CliRunner()  # type: ignore[call-arg]
        result = runner.invoke(app, list(arguments), prog_name="memreplay")
        ended = Ended(result.exit_code, result.stdout, result.stderr)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            ended = ended._replace(stderr=f"{ended.stderr}{result.exception!r}")
        return self.judged(arguments, ended, code)

    def start(self, program: list[str], *arguments: str, code: int = 0) -> Ended:
        """Run a command in a separate process."""
        done = subprocess.run(
            [*program, *arguments],
            check=False,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONUTF8": "1"},
            cwd=self.folder,
        )
        return self.judged(arguments, Ended(done.returncode, done.stdout, done.stderr), code)

    def judged(self, arguments: tuple[str, ...], ended: Ended, code: int) -> Ended:
        """Record a command's failure."""
        self.ran += 1
        if ended.code != code or "Traceback" in ended.stderr:
            what = " ".join(arguments)
            self.wrong.append(
                f"memreplay {what}: ended with {ended.code}, not {code}\n{ended.stderr}"
            )
        return ended

    def written(self, command: str, name: str, *more: str) -> None:
        """Run a command that writes a file, which must not be empty."""
        path = self.folder / name
        self.run(command, self.example, *more, "-o", str(path))
        if not path.exists() or not path.stat().st_size:
            self.wrong.append(f"memreplay {command} wrote no {name}")

    def equal(self, what: str, found: object, expected: object) -> None:
        """Compare two numbers, and record a difference."""
        if found != expected:
            self.wrong.append(f"{what}: {found!r}, not {expected!r}")


def replayed(example: Path) -> Replayed:
    """Walk from the recording's end, where all blocks are known, to its start."""
    with gzip.open(example) as file:
        snapshot: dict[str, Any] = pickle.load(file)
    events = snapshot["device_traces"][0]
    usage = sum(
        block["requested_size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    )
    peak_bytes, event_index, end_bytes = usage, len(events) - 1, usage
    for index in range(len(events) - 1, -1, -1):
        if usage >= peak_bytes:
            peak_bytes, event_index = usage, index
        if events[index]["action"] == "alloc":
            usage -= events[index]["size"]
        elif events[index]["action"] == "free_completed":
            usage += events[index]["size"]
    return Replayed(len(events), peak_bytes, event_index, usage, end_bytes)


def check_program(demo: Demo) -> None:
    """Check the installed script and the module: same version, readable help."""
    script = Path(sysconfig.get_path("scripts"), "memreplay")
    module = [sys.executable, "-m", "memreplay"]
    told = f"memreplay {version('memreplay')}\n"
    demo.equal("--version", demo.start([str(script)], "--version").stdout, told)
    demo.equal("memreplay.__version__", f"memreplay {memreplay.__version__}\n", told)
    shown = demo.start([str(script)], "summary", demo.example).stdout
    shown += demo.start(module, "peak", demo.example, "--top", "3").stdout
    sys.stdout.write(shown)
    if not all(word in shown for word in ("blocks at the end", "allocated at, and its")):
        demo.wrong.append("memreplay summary and peak show no tables")


def check_help(demo: Demo) -> None:
    """Check that each command prints its help, even without its dependencies."""
    from memreplay.commands.shared.listed import COMMANDS

    for name in COMMANDS:
        if not demo.run(name, "--help").stdout.startswith(f"Usage: memreplay {name} "):
            demo.wrong.append(f"memreplay {name} --help does not say how it is used")


def check_numbers(demo: Demo, expected: Replayed) -> None:
    """Compare the numbers of the commands and the library with a replay in Python."""
    (device,) = json.loads(demo.run("peak", demo.example, "--top", "0", "--format", "json").stdout)[
        "devices"
    ]
    found = Replayed(
        device["trace_events"],
        device["peak_bytes"],
        device["peak_event"],
        device["carried_over_bytes"],
        device["end_bytes"],
    )
    demo.equal("memreplay peak", found, expected)
    grouped = sum(group["bytes"] for group in device["groups"])
    demo.equal("the groups of memreplay peak", grouped, expected.peak_bytes)

    replay = memreplay.open(demo.example).replay(device=0)
    demo.equal("replay.peak.bytes", int(replay.peak.bytes), expected.peak_bytes)
    demo.equal("replay.usage[-1]", int(replay.usage[-1]), expected.end_bytes)

    changed = demo.run("diff", demo.example, demo.example, "--format", "json").stdout
    (device,) = json.loads(changed)["devices"]
    demo.equal(
        "memreplay diff", (device["new_bytes"], device["change_bytes"]), (expected.peak_bytes, 0)
    )

    limits = ["gate", demo.example, "--config", "none", "--measure", "requested", "--max-peak"]
    demo.run(*limits, f"{expected.peak_bytes}B")
    demo.run(*limits, f"{expected.peak_bytes - 1}B", code=1)


def check_commands(demo: Demo) -> None:
    """Run every other command once."""
    for arguments in (
        ["report"],
        ["report", "--format", "markdown"],
        ["at", "100"],
        ["timeline"],
        ["allocations"],
        ["peak", "--by", "category", "--rules"],
        ["fragmentation", "--segments"],
        ["steps"],
        ["fragmentation"],
        ["oom"],
        ["simulate", "--set", "max_split_size_mb:64"],
        ["simulate", "--search", "card"],
        ["export", "--format", "txt", "--to", "100"],
        ["fleet"],
    ):
        if not demo.run(arguments[0], demo.example, *arguments[1:]).stdout:
            demo.wrong.append(f"memreplay {' '.join(arguments)} printed nothing")
    demo.run("watch", str(demo.folder), "--until", "now")
    demo.run("help", "peak")
    demo.run("completion", "bash")
    demo.run("modules", demo.example, code=5)  # the example doesn't record modules

    demo.written("view", "page.html")
    for name in (
        "trace.perfetto-trace",
        "trace.json",
        "flame.speedscope.json",
        "flame.folded",
        "heap.pb.gz",
        "export.html",
    ):
        form = {"trace.json": ["--format", "chrome"]}.get(name, [])
        demo.written("export", name, *form)
    demo.written("export", "part.pickle", "--to", "100")
    demo.written("export", "whole.json")
    demo.run("gate", demo.example, "--save-base", str(demo.folder / "base.json"))


# Maps each extra to a module that shows whether it's installed, and a command that needs it.
EXTRAS: dict[str, tuple[str, list[str]]] = {
    "zst": ("zstandard", ["export", "EXAMPLE", "-o", "whole.pkl.zst"]),
    "parquet": ("pyarrow", ["export", "EXAMPLE", "-o", "allocations.csv"]),
    "sql": ("duckdb", ["sql", "EXAMPLE", "select 1"]),
    "plot": ("matplotlib", ["timeline", "EXAMPLE", "--format", "png", "-o", "memory.png"]),
    "remote": ("fsspec", ["summary", "https://localhost:1/snapshot.pickle"]),
    "mcp": ("mcp_types", ["mcp"]),
    "fleet": ("distributed", ["fleet", "EXAMPLE", "--workers", "tcp://localhost:1"]),
}


def names_extra(line: str, extra: str) -> bool:
    """Return whether an error names the packages to install and their extra."""
    return "pip install '" in line and f"(the extra '{extra}')" in line


def check_extras(demo: Demo) -> str:
    """Check that a command whose extra is missing names it in one line."""
    absent = []
    for extra, (module, arguments) in EXTRAS.items():
        # Python 3.14 includes zstandard.
        if find_spec(module) is not None or (extra == "zst" and sys.version_info >= (3, 14)):
            continue
        absent.append(extra)
        given = [demo.example if word == "EXAMPLE" else word for word in arguments]
        ended = demo.run(*given, code=2)
        lines = ended.stderr.splitlines()
        if len(lines) != 1 or not names_extra(lines[0], extra):
            demo.wrong.append(f"memreplay {' '.join(given)} should name its extra:\n{ended.stderr}")
    if find_spec("textual") is None:  # without a terminal, the command would report that first
        from memreplay.explore.terminal import check_textual

        absent.append("explore")
        try:
            check_textual("explore needs Textual")
        except memreplay.errors.MissingExtraError as error:
            if not names_extra(str(error), "explore"):
                demo.wrong.append(f"memreplay explore should name its extra: {error}")
        else:
            demo.wrong.append("memreplay explore does not miss Textual")
    return ", ".join(absent) or "none"


def main() -> int:
    """Run everything. Return 1 if anything failed."""
    if len(sys.argv) != 2:
        sys.exit("usage: python wheel_demo.py EXAMPLE.pkl.gz")
    example = Path(sys.argv[1]).resolve()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that a source checkout is neither used nor changed
        try:
            demo = Demo(example, Path(folder))
            check_program(demo)
            check_help(demo)
            check_numbers(demo, replayed(example))
            check_commands(demo)
            absent = check_extras(demo)
        finally:
            os.chdir(before)
    for wrong in demo.wrong:
        sys.stderr.write(f"{wrong}\n")
    sys.stdout.write(
        f"memreplay {memreplay.__version__} of {Path(memreplay.__file__).parent}\n"
        f"{demo.ran} commands, {len(demo.wrong)} wrong; extras that are not there: {absent}\n"
    )
    return 1 if demo.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
