"""Run commands with the fault library loaded, each in its own folders, and report their
outcomes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.scenarios import Scenario, before, contents, inputs
from tests.faults.shim import Counted, Fault, blank, compiled, counted, environment

LIMIT_S = 120.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code, its output, and what is in the output folder."""

    exit: int
    out: bytes
    err: str
    files: dict[str, bytes]
    counted: Counted
    late: bool = False


class Runner:
    """Run scenarios, one at a time."""

    def __init__(self, folder: Path, server: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.under = folder / "work"
        self._server = server
        self._shared = folder / "shared"

    def run(
        self,
        scenario: Scenario,
        fault: Fault | None = None,
        *,
        kill_s: float | None = None,
        again: bool = False,
    ) -> Outcome:
        """Run a scenario once; with `again`, on top of the previous run's results."""
        made = self.under / "out"
        if not again:
            before(scenario, made)
        blank(self._shared)
        places = {"in": str(self.under / "in"), "out": str(made)}
        job: dict[str, Any] = {
            "args": scenario.args.format(**places).split(" "),
            "env": {
                **environment(self.under, self._shared, fault, early=scenario.early),
                **{name: value.format(**places) for name, value in scenario.env},
            },
            "cwd": str(self.folder / "elsewhere"),
            "stdin": places["in"] + "/" + scenario.stdin if scenario.stdin else os.devnull,
            "stdout": str(self.folder / "stdout"),
            "stderr": str(self.folder / "stderr"),
            "kill_s": kill_s,
            "limit_s": LIMIT_S,
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps(job)}\n")
        self._server.stdin.flush()
        ended = json.loads(self._server.stdout.readline())
        return Outcome(
            ended["exit"],
            Path(job["stdout"]).read_bytes(),
            Path(job["stderr"]).read_text(errors="replace"),
            contents(made),
            counted(self._shared),
            ended["late"],
        )

    def listed(self) -> list[str]:
        """Return all names in the output folder, including subfolders."""
        made = self.under / "out"
        return sorted(str(one.relative_to(made)) for one in made.rglob("*"))


@contextmanager
def runner(folder: Path, *, large: bool = False) -> Iterator[Runner]:
    """Return a runner that keeps its files in this folder."""
    made = compiled(folder)
    (folder / "elsewhere").mkdir()
    inputs(folder / "work/in", large=large)
    home = {"HOME": str(folder / "elsewhere"), "MPLCONFIGDIR": str(folder / "elsewhere")}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        env={**os.environ, **home, "LD_PRELOAD": str(made), "COLUMNS": "100"},
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            assert server.stdout.readline() == "ready\n"
            ready = Runner(folder, server)
            base = Scenario("", "gate {in}/snap.pkl.gz --save-base {in}/base.json")
            done = ready.run(base)
            assert done.exit == 0, done.err
            yield ready
        finally:
            server.stdin.close()
            server.wait(60)
