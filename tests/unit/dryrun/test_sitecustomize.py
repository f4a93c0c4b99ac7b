"""The code that runs inside a dry run's process, with a fake torch that records its calls."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun.runtime import built
from memreplay.programs.starting import INSIDE
from tests.unit.dryrun.fake_torch import write_torch


class Dry:
    """A folder with the fake torch, and the output of programs run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        write_torch(folder, library=False)

    def run(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "MEMREPLAY_DRYRUN": str(self.out),
            "MEMREPLAY_DRYRUN_CARD": str(built("_gpu")),
            "PYTHONPATH": os.pathsep.join([str(INSIDE), str(self.folder)]),
        }
        return subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | environment | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def written(self) -> list[tuple[Any, Any]]:
        """Return the contents of each process's snapshot, and of the files next to it."""
        found = []
        for path in sorted(self.out.glob("*.pickle")):
            beside = json.loads(path.with_suffix(".json").read_text())
            found.append((pickle.loads(path.read_bytes()), beside))
        assert len(list(self.out.iterdir())) == 2 * len(found)
        return found


@pytest.fixture
def dry(tmp_path: Path) -> Dry:
    return Dry(tmp_path)


def test_program_is_recorded_from_cuda_startup(dry: Dry) -> None:
    done = dry.run("import torch; print(torch.cuda.memory.asked); torch.cuda.init()", RANK="3")
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)
    ((snapshot, beside),) = dry.written
    assert snapshot["asked"] == [["all", {"stacks": "python", "max_entries": sys.maxsize}]]
    host = snapshot["memreplay"].pop("host_memory")
    assert 0 < host["resident_bytes"][0] <= host["resident_peak_bytes"]
    assert snapshot["memreplay"] == {
        "version": 1,
        "recorder": "dryrun",
        "torch": "9.9",
        "cards": [{"name": "A card", "total_bytes": 1 << 30, "context_bytes": 0}] * 2,
        "visible": None,
        "rank": 3,
        "world_size": None,
        "max_entries": None,
        "dropped_events": [0] * 8,
    }
    assert beside["statistics"] == [{"device": 0}, {"device": 1}]
    assert (beside["rank"], beside["world_size"], beside["torch"]) == (3, None, "9.9")
    assert beside["recorded_by_itself"] is False
    assert beside["unanswered"] == {}
    assert beside["workspaces"] == {}


def test_program_may_look_for_torch_before_importing_it(dry: Dry) -> None:
    dry.run(
        "import importlib.util, sys; before = len(sys.meta_path)\n"
        "assert importlib.util.find_spec('torch') and importlib.util.find_spec('torch')\n"
        "import torch; torch.cuda.init()\n"
        "assert len(sys.meta_path) == before - 1"
    )
    assert len(dry.written) == 1


def test_recording_options_are_passed_on(dry: Dry) -> None:
    dry.run(
        "import torch; torch.cuda.init()",
        MEMREPLAY_DRYRUN_STACKS="all",
        MEMREPLAY_DRYRUN_ENTRIES="7",
    )
    ((snapshot, _),) = dry.written
    assert snapshot["asked"] == [["all", {"stacks": "all", "max_entries": 7}]]


def test_program_without_cuda_writes_nothing(dry: Dry) -> None:
    for code in ("import torch", "import json", "pass"):
        assert dry.run(code).returncode == 0
    assert dry.written == []


def test_process_that_only_queries_cards_writes_nothing(dry: Dry) -> None:
    """torch.compile starts such processes."""
    none = {"allocation.all.allocated": 0, "num_ooms": 0}
    code = "import torch; torch.cuda.init(); torch.cuda.memory.statistics.update({})"
    dry.run(code.format({0: none, 1: none}))
    assert dry.written == []
    dry.run(code.format({0: none, 1: none | {"allocation.all.allocated": 1}}))
    dry.run(code.format({0: none, 1: none | {"num_ooms": 1}}))
    assert len(dry.written) == 2


CALLER = """import library
def step():
    library.read()
step()
"""
READ = """
import ctypes, os, torch
torch.cuda.init()
gpu, at = ctypes.CDLL(os.environ["MEMREPLAY_DRYRUN_CARD"]), ctypes.c_void_p()
gpu.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(1 << 20))
def read():
    gpu.cudaMemcpy(ctypes.create_string_buffer(3), at, ctypes.c_size_t(3), 2)
"""


def test_call_site_of_a_read_is_in_the_program_even_in_site_packages(dry: Dry) -> None:
    """Here the program's main module is in a library's folder."""
    for name, files in {
        "library": {"__init__": READ},
        "package": {"__init__": "", "train": "from . import model", "model": CALLER},
        "caller": {"__init__": "import made"},
        # Code generated by torch.compile isn't part of the program either.
        "../../generated": {"made": CALLER},
    }.items():
        folder = dry.folder / "more/site-packages" / name
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / f"{file}.py").write_text(text)
    begin = "import sys; sys.path += ['more/site-packages', 'generated']; "
    dry.run(begin + "import runpy; runpy.run_module('package.train', None, '__main__', True)")
    dry.run(begin + "import caller", TORCHINDUCTOR_CACHE_DIR=str(dry.folder / "generated"))
    ((_, of_package),) = dry.written[:1]
    ((_, of_script),) = dry.written[1:]
    if "package" not in of_package["reads"][0]["file"]:
        of_package, of_script = of_script, of_package
    (read,) = of_package["reads"]
    assert read["file"].endswith("/site-packages/package/model.py")
    assert (read["line"], read["function"]) == (3, "step")
    assert read["through"].endswith("/site-packages/library/__init__.py:7")
    (read,) = of_script["reads"]
    assert (read["file"], read["line"]) == ("<string>", 1)
    assert read["through"].endswith("/site-packages/library/__init__.py:7")


def test_programs_own_recording_is_left_alone(dry: Dry) -> None:
    dry.run(
        "import torch; torch.cuda.memory._record_memory_history(max_entries=5); torch.cuda.init()"
    )
    ((snapshot, beside),) = dry.written
    assert snapshot["asked"] == [["all", {"max_entries": 5}]]
    assert beside["recorded_by_itself"] is True


def test_program_can_stop_only_its_own_recording(dry: Dry) -> None:
    for off in ("None", "enabled=None", "False"):
        code = f"import torch; torch.cuda.memory._record_memory_history({off}); torch.cuda.init()"
        assert dry.run(code).returncode == 0
    assert len(dry.written) == 3
    for snapshot, beside in dry.written:
        assert beside["recorded_by_itself"] is False
        assert [how for how, _ in snapshot["asked"]] == ["all"]


def test_program_continues_if_its_allocator_cannot_be_recorded(dry: Dry) -> None:
    """CUDAPluggableAllocator is such an allocator."""
    with (dry.folder / "torch/cuda/memory.py").open("a") as file:
        file.write(
            "def _record_memory_history(**options):\n"
            "    raise RuntimeError('this allocator has no history\\nmore')\n"
        )
    done = dry.run("import torch; torch.cuda.init(); print('went on')")
    assert (done.stdout, done.returncode) == ("went on\n", 0)
    assert done.stderr == "memreplay: nothing is recorded: this allocator has no history\n"
    assert dry.written == []


def test_failing_program_fails_as_usual(dry: Dry) -> None:
    done = dry.run("import torch; torch.cuda.init(); raise SystemExit(7)")
    assert done.returncode == 7
    done = dry.run("import torch; torch.cuda.init(); 1 / 0")
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "sitecustomize" not in done.stderr
    assert len(dry.written) == 2


def test_snapshot_is_written_if_the_program_exits_at_once(dry: Dry) -> None:
    done = dry.run("import os, torch; torch.cuda.init(); os._exit(7)")
    assert done.returncode == 7
    assert len(dry.written) == 1


def test_snapshot_is_written_if_the_process_is_terminated(dry: Dry) -> None:
    done = dry.run(
        "import os, signal, torch; torch.cuda.init(); os.kill(os.getpid(), signal.SIGTERM)"
    )
    assert done.returncode == -signal.SIGTERM
    assert len(dry.written) == 1


def test_multiprocessing_children_also_write_snapshots(dry: Dry) -> None:
    (dry.folder / "several.py").write_text(
        "import multiprocessing, torch\n"
        "def work():\n    torch.cuda.init()\n"
        "if __name__ == '__main__':\n"
        "    for way in ('spawn', 'fork'):\n"
        "        one = multiprocessing.get_context(way).Process(target=work)\n"
        "        one.start()\n        one.join()\n        assert not one.exitcode\n"
    )
    done = dry.run("import runpy; runpy.run_path('several.py', run_name='__main__')")
    assert done.returncode == 0, done.stderr
    assert len(dry.written) == 2


def test_other_sitecustomize_runs_too(dry: Dry) -> None:
    (dry.folder / "sitecustomize.py").write_text("print('the other one')")
    assert dry.run("import torch; torch.cuda.init()").stdout == "the other one\n"
    assert len(dry.written) == 1
    assert dry.run("import sitecustomize; print(sitecustomize.__file__)").stdout.split("\n") == [
        "the other one",
        str(dry.folder / "sitecustomize.py"),
        "",
    ]


def test_nothing_happens_outside_a_dry_run(dry: Dry) -> None:
    code = "import os; os.environ.pop('MEMREPLAY_DRYRUN', None); import torch; torch.cuda.init()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(INSIDE), str(dry.folder)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == 0
    assert dry.written == []
