"""Reports, pages, gates and traces have the same bytes without NumPy, and without threads and
processes, as in a browser.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import START_US
from tests.kineto import Kineto

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = "recorded_gpt", "serving_oom", "two_gpus"
VIEWS = "folded", "speedscope.json", "pb.gz", "pftrace", "trace.json", "trace.json.gz"

NO_NUMPY = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
"""
NO_THREADS = """
import _thread, sys, threading

def start(*args, **kwargs):
    raise RuntimeError("can't start new thread")

threading.Thread.start = _thread.start_new_thread = start
import memreplay.io.parallel
memreplay.io.parallel.has_processes = lambda: False
import memreplay.workers.pool
memreplay.workers.pool.has_processes = lambda: False
"""
# Runs each command line, and stores its exit code and output.
RUN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from memreplay.commands.app import app

found = []
for line in json.loads(sys.argv[1]):
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app(line, prog_name="memreplay")
        except SystemExit as ended:
            code = ended.code
    out.flush()
    found.append([line, code, out.buffer.getvalue().decode(), err.getvalue()])
print(json.dumps(found))
"""


def command_lines() -> list[list[str]]:
    """Return the command lines to compare. Files are written to the current folder."""
    lines: list[list[str]] = []
    for name in EXAMPLES:
        file = f"{ROOT}/examples/{name}.pkl.gz"
        lines += [[command, file] for command in ("report", "summary", "peak", "steps", "leaks")]
        lines += [[command, file] for command in ("oom", "modules", "allocations", "timeline")]
        lines += [["report", file, "--format", "json"], ["at", file, "100"]]
        lines += [["fragmentation", file], ["fragmentation", file, "--segments"]]
        lines += [["peak", file, "--measure", "reserved", "--by", "line"]]
        lines += [["peak", file, "--by", way] for way in ("category", "phase", "module")]
        lines += [["view", file, "--force", "-o", f"{name}.html"]]
        lines += [["gate", file, "--force", "--save-base", f"{name}.json"]]
        lines += [["gate", file, "--base", f"{name}.json", "--max-growth", "2%"]]
        lines += [["gate", file, "--base", file, "--max-growth", "2%", "--format", "json"]]
        simulated = ["simulate", file, "--set", "expandable_segments:True"]
        lines += [simulated, [*simulated, "--force", "-o", f"{name}.simulated.pkl"]]
        for ending in VIEWS:
            lines += [["export", file, "--force", "-o", f"{name}.{ending}"]]
        for ending in ("pftrace", "trace.json"):
            lines += [["export", file, "--points", "0", "--force", "-o", f"{name}.all.{ending}"]]
            sampled = ["--points", "7", "--measure", "reserved,active", "--force"]
            lines += [["export", file, *sampled, "-o", f"{name}.sampled.{ending}"]]
        lines += [["export", file, "--force", "--from", "100", "-o", f"{name}.pkl"]]
    one, other = (f"{ROOT}/examples/transformer_{name}.pkl.gz" for name in ("step", "deeper"))
    lines += [["diff", one, other], ["view", one, other, "--force", "-o", "both.html"]]
    lines += [["fleet", f"{ROOT}/examples/fsdp_odd_ranks"]]
    lines += [["report", "profile.json"], ["peak", "profile.json", "--by", "line"]]
    return lines


def profile() -> bytes:
    """Return a torch.profiler trace."""
    trace = Kineto(base_ns=START_US * 1000)
    trace.span(0.5, 90, "ProfilerStep#1", "user_annotation")
    for i in range(20):
        trace.span(2 * i, 1.5, f"train.py({i}): step", "python_function")
        trace.memory(2 * i + 0.25, 0x7F0000000000 + i * 512, 512, 512 * (i + 1), 2 << 20)
    return trace.json()


def run(folder: Path, before: str) -> tuple[list[list[object]], dict[str, bytes]]:
    """Run all command lines in a new process, after some code. Return what they printed and
    wrote.
    """
    folder.mkdir()
    (folder / "profile.json").write_bytes(profile())
    done = subprocess.run(
        [sys.executable, "-c", before + RUN, json.dumps(command_lines())],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.fixture(scope="module")
def ordinary(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[list[object]], dict[str, bytes]]:
    return run(tmp_path_factory.mktemp("bare") / "ordinary", "")


@pytest.mark.parametrize("before", [NO_NUMPY, NO_THREADS], ids=["numpy", "threads"])
def test_commands_have_the_same_output_without(
    before: str,
    ordinary: tuple[list[list[object]], dict[str, bytes]],
    tmp_path: Path,
) -> None:
    printed, written = run(tmp_path / "bare", before)
    for found, want in zip(printed, ordinary[0], strict=True):
        assert found == want
        assert found[1] in (0, 1, 5), found
    assert written.keys() == ordinary[1].keys()
    assert len(written) == len(EXAMPLES) * (len(VIEWS) + 8) + 2
    for name, data in written.items():
        assert data == ordinary[1][name], name


def test_what_needs_numpy_says_so_in_one_line(tmp_path: Path) -> None:
    file = f"{ROOT}/examples/two_gpus.pkl.gz"
    code = NO_NUMPY + "from memreplay.__main__ import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "export", file, "-o", str(tmp_path / "x.csv")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("this needs NumPy: pip install numpy\n")
    assert done.stderr.count("\n") == 1
