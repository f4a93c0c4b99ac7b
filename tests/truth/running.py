"""Start a server that runs cases with one version of torch, send it cases, and collect their
results.

Cases run dry or, if requested, on this machine's GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import memreplay
from memreplay.dryrun.python import torch_of
from memreplay.dryrun.runtime import built, lay_out

HERE = Path(__file__).parent
INSIDE = Path(memreplay.__file__).parent / "programs" / "inside"
PACKAGE = Path(memreplay.__file__).parent.parent  # programs that record themselves need it


class Ended(NamedTuple):
    """A case that has run."""

    name: str
    pid: int
    status: int
    """0 if the case ended as intended."""
    seconds: float


class TorchEnvironment:
    """The environment for one Python's torch: for dry runs, or for this machine's GPU."""

    def __init__(self, python: str, folder: Path, *, gpu: bool = False) -> None:
        self.folder = folder
        self.cuda = 0
        """The CUDA that its torch was built with; 0 where it runs on a card of this machine."""
        # On a GPU machine, memreplay and its dependencies may be installed anywhere.
        found = [os.environ["PYTHONPATH"]] if gpu and "PYTHONPATH" in os.environ else []
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (INSIDE, HERE.parent.parent, PACKAGE, *found))),
            "MEMREPLAY_DRYRUN": str(folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
        }
        """That in which its torch runs."""
        if not gpu:
            self.run_dry(python)

    def run_dry(self, python: str) -> None:
        """Prepare to run dry, without a GPU."""
        torch = torch_of(python)
        libraries = self.folder / "libraries"
        libraries.mkdir(exist_ok=True)
        runtime = lay_out(torch.package, libraries)
        self.cuda = runtime.cuda
        self.environment |= {
            "LD_PRELOAD": os.pathsep.join(map(str, runtime.preload)),
            "MEMREPLAY_DRYRUN_CARD": str(runtime.preload[0]),
            "MEMREPLAY_DRYRUN_MORE": str(runtime.preload[1]),
            "MEMREPLAY_DRYRUN_OPERATORS": str(built("_operators")),
        }
        if torch.cudnn is not None:
            self.environment["MEMREPLAY_CUDNN"] = str(torch.cudnn)


class Server(TorchEnvironment):
    """Runs cases with one Python's torch. Writes PID.pickle, PID.json and PID.truth for each."""

    def __init__(self, python: str, folder: Path, *, gpu: bool = False) -> None:
        super().__init__(python, folder, gpu=gpu)
        self.process = subprocess.Popen(
            [python, "-m", "tests.truth.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        if kind is not None:
            self.process.terminate()
        self.process.stdout.close()
        self.process.wait()

    @property
    def failed(self) -> bool:
        """Return whether the server ended with an error."""
        return bool(self.process.returncode)

    def run(self, cases: Iterable[dict[str, Any]]) -> Iterator[Ended]:
        """Yield each case's outcome when the case ends. If the server exits early, outcomes are
        missing.
        """
        lines = [json.dumps(case) for case in cases]
        assert self.process.stdin
        assert self.process.stdout
        # The server reads the next case once a process is free, and may report finished cases
        # before that.
        writer = threading.Thread(target=self._write, args=([*lines, ""],), daemon=True)
        writer.start()
        for _ in lines:
            line = self.process.stdout.readline()
            if not line:
                return
            yield Ended(**json.loads(line))
        writer.join()

    def _write(self, lines: list[str]) -> None:
        assert self.process.stdin
        try:
            for line in lines:
                self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the server has exited, which `run` notices

    def torch(self) -> str:
        """Return torch's version; known once a case has run."""
        for path in self.folder.glob("[0-9]*.json"):
            return str(json.loads(path.read_text(encoding="utf-8"))["torch"])
        return "unknown"
