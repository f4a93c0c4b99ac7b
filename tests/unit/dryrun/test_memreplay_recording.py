"""Recordings in a dry run's process. test_sitecustomize.py has more tests of these processes."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.dryrun.runtime import FUNCTIONS, built
from memreplay.programs.starting import INSIDE
from tests.unit.dryrun.fake_torch import HEADER, TRACED, compile_
from tests.unit.dryrun.test_sitecustomize import Dry


@pytest.fixture
def recording() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "memreplay_recording", INSIDE / "memreplay_recording.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dry(tmp_path: Path) -> Dry:
    return Dry(tmp_path)


def test_number_of_functions_matches_the_library(recording: ModuleType) -> None:
    assert recording.FUNCTIONS == FUNCTIONS


# ---- which processes write a snapshot


def test_later_forks_write_nothing(dry: Dry) -> None:
    """All memory known to a forked process belongs to its parent."""
    (dry.folder / "several.py").write_text(
        "import multiprocessing, os, sys, time, torch\n"
        "def work(n):\n    return n + 1\n"
        "if __name__ == '__main__':\n"
        "    torch.cuda.init()\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        assert pool.map(work, range(4)) == [1, 2, 3, 4]\n"  # SIGTERM ends the workers
        "    if not os.fork():\n        sys.exit(0)\n"
        "    os.wait()\n"
    )
    done = dry.run("import runpy; runpy.run_path('several.py', run_name='__main__')")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(dry.written) == 1


def test_later_forks_exit_normally(dry: Dry) -> None:
    done = dry.run(
        "import os, signal, torch; torch.cuda.init()\n"
        "assert callable(signal.getsignal(signal.SIGTERM))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(3 if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL else 4)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_process_forked_before_cuda_started_writes_a_snapshot(dry: Dry) -> None:
    done = dry.run(
        "import os, torch\nif os.fork():\n    os.wait()\ntorch.cuda.init()", WORLD_SIZE="2"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [beside["world_size"] for _, beside in dry.written] == [2, 2]


def test_terminated_process_with_its_own_handler_writes_a_snapshot(dry: Dry) -> None:
    done = dry.run(
        "import os, signal, sys, torch\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('mine'))\n"
        "torch.cuda.init(); os.kill(os.getpid(), signal.SIGTERM)"
    )
    assert (done.returncode, done.stderr) == (1, "mine\n")
    assert len(dry.written) == 1


def test_cuda_may_start_in_another_thread(dry: Dry) -> None:
    done = dry.run(
        "import threading, torch\n"
        "one = threading.Thread(target=torch.cuda.init); one.start(); one.join()"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(dry.written) == 1


# ---- the program's own actions


def test_the_programs_own_dumps_are_listed(dry: Dry) -> None:
    done = dry.run(
        "import os, torch; torch.cuda.init(); memory = torch.cuda.memory\n"
        "memory._dump_snapshot('a.pickle'); memory._dump_snapshot(); os.chdir('/')\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    ((_, beside),) = dry.written
    assert beside["dumped"] == [
        str(dry.folder / "a.pickle"),
        str(dry.folder / "dump_snapshot.pickle"),
    ]
    assert (beside["recorded_by_itself"], beside["raised"]) == (False, None)
    assert (dry.folder / "a.pickle").exists()


def test_failed_dump_does_not_count(dry: Dry) -> None:
    dry.run(
        "import torch; torch.cuda.init()\n"
        "try:\n    torch.cuda.memory._dump_snapshot('no/such/folder')\n"
        "except OSError:\n    pass\n"
    )
    ((_, beside),) = dry.written
    assert beside["dumped"] == []


# ---- how the program ended

RAISED = "try:\n    raise torch.OutOfMemoryError\nexcept torch.OutOfMemoryError"


@pytest.mark.parametrize(
    "code, raised",
    [
        ("1 / 0", ("ZeroDivisionError", "division by zero", False)),
        ("raise torch.OutOfMemoryError('all\\nof it')", ("OutOfMemoryError", "all", True)),
        (
            f"{RAISED} as one:\n    raise ValueError from one",
            ("ValueError", "", True),
        ),
        (
            f"{RAISED}:\n    1 / 0",
            ("ZeroDivisionError", "division by zero", True),
        ),
        ("one = KeyError(5); one.__cause__ = one; raise one", ("KeyError", "5", False)),
        ("raise KeyError('x' * 5000)", ("KeyError", "'" + 999 * "x", False)),
    ],
)
def test_exceptions_raised_by_the_program_are_kept(
    dry: Dry, code: str, raised: tuple[str, str, bool]
) -> None:
    assert dry.run(f"import torch; torch.cuda.init()\n{code}").returncode == 1
    ((_, beside),) = dry.written
    assert tuple(beside["raised"].values()) == raised


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os.chdir('/')"])
def test_exceptions_that_the_program_did_not_raise_are_not_kept(dry: Dry, code: str) -> None:
    dry.run(f"import torch; torch.cuda.init()\n{code}")
    ((_, beside),) = dry.written
    assert beside["raised"] is None


# ---- ranks


def test_rank_is_kept_if_the_group_already_exists(dry: Dry) -> None:
    """A program may destroy the group before it ends."""
    folder = dry.folder / "torch/distributed"
    folder.mkdir()
    (folder / "distributed_c10d.py").write_text("def init_process_group():\n    pass\n")
    (folder / "__init__.py").write_text(
        "from torch.distributed import distributed_c10d\n"
        "from torch.distributed.distributed_c10d import init_process_group\n"
        "there = True\n"
        "def is_initialized():\n    return there\n"
        "def get_rank():\n    return 5\ndef get_world_size():\n    return 8\n"
    )
    with open(dry.folder / "torch/__init__.py", "a", encoding="utf-8") as file:
        file.write("import torch.distributed\n")
    code = (
        "import torch; torch.cuda.init(); torch.distributed.init_process_group();"
        " torch.distributed.there = False"
    )
    dry.run(code, RANK="1", WORLD_SIZE="2")
    ((snapshot, _),) = dry.written
    assert (snapshot["memreplay"]["rank"], snapshot["memreplay"]["world_size"]) == (5, 8)


def test_counters_survive_a_reset_by_the_program(dry: Dry) -> None:
    """Peaks keep their highest value, and sums their total."""
    with open(dry.folder / "torch/cuda/memory.py", "a", encoding="utf-8") as file:
        file.write(
            "def lower(device):\n    statistics[device]['reserved_bytes.all.peak'] = 2\n"
            "def zero(device):\n    statistics[device]['allocation.all.allocated'] = 0\n"
        )
    with open(dry.folder / "torch/_C.py", "a", encoding="utf-8") as file:
        file.write(
            "def _cuda_resetPeakMemoryStats(device):\n"
            "    import torch\n    torch.cuda.memory.lower(device)\n"
            "def _cuda_resetAccumulatedMemoryStats(device):\n"
            "    import torch\n    torch.cuda.memory.zero(device)\n"
        )
    dry.run(
        "import torch; torch.cuda.init()\n"
        "torch.cuda.memory.statistics[0] = {\n"
        "    'reserved_bytes.all.peak': 7, 'allocation.all.allocated': 5}\n"
        "torch._C._cuda_resetPeakMemoryStats(0)\n"
        "torch._C._cuda_resetAccumulatedMemoryStats(0)\n"
        "torch.cuda.memory.statistics[0]['allocation.all.allocated'] += 3\n"
    )
    ((_, facts),) = dry.written
    one = facts["statistics"][0]
    assert (one["reserved_bytes.all.peak"], one["allocation.all.allocated"]) == (7, 8)


def test_unwritable_snapshot_still_reports_the_counts(dry: Dry) -> None:
    """The report also says why the snapshot is missing."""
    dry.run(
        "import torch; torch.cuda.init()\n"
        "def broken():\n    raise RuntimeError('no text\\nand more')\n"
        "torch.cuda.memory._snapshot = broken"
    )
    (path,) = dry.out.glob("*.json")
    facts = json.loads(path.read_text())
    assert (facts["not_written"], len(facts["statistics"])) == ("no text", 2)


def test_source_lines_are_kept_on_request(dry: Dry) -> None:
    program = dry.folder / "train.py"
    program.write_text(
        "import json, torch; torch.cuda.init()\n"
        "for file, line in ((__file__, 3), (json.__file__, 1), (torch.__file__, 2)):\n"
        "    torch.cuda.memory.made.alloc(512 * line, 512, frames=[('<module>', file, line)])\n"
    )
    run = f"import runpy; runpy.run_path({str(program)!r})"
    assert dry.run(run, MEMREPLAY_DRYRUN_SOURCE="1").stderr == ""
    ((snapshot, _),) = dry.written
    line = program.read_text().splitlines()[2].strip()
    assert snapshot["memreplay"]["source_lines"] == {str(program): {"3": line}}
    for path in dry.out.iterdir():
        path.unlink()
    dry.run(run)
    ((snapshot, _),) = dry.written
    assert "source_lines" not in snapshot["memreplay"]


def test_visible_cards_are_noted(dry: Dry) -> None:
    dry.run("import torch; torch.cuda.init()", CUDA_VISIBLE_DEVICES="3")
    ((snapshot, _),) = dry.written
    assert snapshot["memreplay"]["visible"] == "3"


# ---- reads of values


@pytest.fixture
def reads(recording: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = recording.Reads(str(built("_gpu")), "/site/torch")
    yield made
    made.stop()


OS = os.__file__


def test_call_site_of_a_read_is_in_the_program(reads: Any) -> None:
    def place(*stack: tuple[str, int, str]) -> tuple[str, int, str, str]:
        found: tuple[str, int, str, str] = reads.place(list(stack))
        return found

    mine, library = ("/me/train.py", 7, "step"), ("/site/torch/nn/x.py", 3, "call")
    outer = ("/me/other.py", 1, "main")
    assert place(mine) == (*mine, "")
    assert place(library, mine, outer) == (*mine, "/site/torch/nn/x.py:3")
    assert place(("<frozen runpy>", 1, "r"), (OS, 5, "walk"), mine) == (*mine, "<frozen runpy>:1")
    # A package next to torch isn't part of torch, even if its name starts with "torch".
    assert place(("/site/torch_of_mine/x.py", 3, "f")) == ("/site/torch_of_mine/x.py", 3, "f", "")
    assert place(library, (OS, 5, "walk")) == (*library, "")
    assert place() == ("", 0, "", "")


def test_reads_are_counted_by_call_site(reads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = ("/me/train.py", 7, "step"), ("/me/train.py", 1, "main")
    events, logger = ("/site/torch/cuda/streams.py", 9, "x"), ("/site/torch/nn/ddp.py", 5, "log")
    printing = ("/site/torch/_tensor_str.py", 3, "text")
    memory = ("/site/torch/cuda/memory.py", 864, "mem_get_info")
    sampling = ("/site/memreplay/recording/memory_samples.py", 9, "sample_card")
    met = [
        ("item", 0, [mine, other], 2),
        ("item", 0, [mine, mine], 3),
        ("nonzero", 9, [mine], 1),
        ("item", 0, [printing, mine], 1),
        ("elapsed_time", 0, [events, logger, mine], 7),
        ("elapsed_time", 0, [], 7),
        ("elapsed_time", 0, [events, mine], 4),
        ("mem_get_info", 0, [memory, sampling], 5),
        ("mem_get_info", 0, [memory, mine], 6),
    ]
    monkeypatch.setattr(reads, "met", lambda: met)
    found = [(one["operator"], one["sizes"], one["line"], one["count"]) for one in reads.counted()]
    assert found == [
        ("item", False, 7, 5),
        ("nonzero", True, 7, 1),
        ("print", False, 7, 1),
        ("elapsed_time", False, 7, 4),
        ("mem_get_info", False, 7, 6),  # not the recorder's own
    ]
    assert set(reads.counted()[0]) == {
        *("operator", "sizes", "sampled", "assumed", "chosen"),
        *("file", "line", "function", "through", "count"),
    }
    assert [one["chosen"] for one in reads.counted()] == [False, True, False, False, False]


def test_card_reports_reads_until_stopped(reads: Any) -> None:
    card = ctypes.CDLL(str(built("_gpu")))
    at, here = ctypes.c_void_p(), ctypes.create_string_buffer(8)
    assert card.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(64)) == 0

    def read() -> int:
        assert card.cudaMemcpy(here, at, ctypes.c_size_t(8), 2) == 0
        return sum(one["count"] for one in reads.counted())

    assert (read(), read()) == (1, 2)
    (one,) = reads.counted()
    assert (one["operator"], one["function"]) == ("read", "read")
    assert one["file"] == __file__
    reads.stop()
    assert read() == 2
    card.cudaFree(at)


def test_benchmarks_are_noticed_if_torch_has_them(recording: ModuleType) -> None:
    for cudnn, found in ((SimpleNamespace(benchmark=True), True), (SimpleNamespace(), False)):
        torch = SimpleNamespace(backends=SimpleNamespace(cudnn=cudnn))
        assert recording.benchmarks(torch) is found
    assert recording.benchmarks(SimpleNamespace()) is False


def test_nothing_is_counted_without_a_card(
    recording: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMREPLAY_DRYRUN_CARD", raising=False)
    monkeypatch.delenv("MEMREPLAY_DRYRUN_MORE", raising=False)
    assert (recording.workspaces(), recording.estimates(), recording.calls()) == ({}, {}, {})
    monkeypatch.setenv("MEMREPLAY_DRYRUN_MORE", str(built("_unanswered")))
    assert recording.calls() == {}


def test_recorder_does_not_import_memreplay(
    recording: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(recording.__file__ or "").read_text()
    imported = {
        line.split()[1]
        for line in text.splitlines()
        if line.strip().startswith(("import ", "from "))
    }
    # The files next to it always exist. The others are optional, and may be missing.
    ours = {name for name in imported if name.startswith("memreplay") and "_" not in name}
    assert ours == {"memreplay.recording.noting", "memreplay.recording.holders"}
    instance = recording.Recording(None)
    monkeypatch.setitem(sys.modules, "memreplay.recording.noting", None)
    instance.note()
    assert instance.noting is None


# ---- freed blocks


def test_blocks_are_reported_to_the_card(dry: Dry) -> None:
    library = compile_(dry.folder, TRACED, "libc10.so", "-shared", "-fPIC")
    library.rename(dry.folder / "torch" / "lib" / "libc10.so")
    header = dry.folder / "torch/include/c10/core/impl/PyInterpreter.h"
    header.parent.mkdir(parents=True)
    header.write_text(HEADER)
    code = (
        "import ctypes, os, torch; torch.cuda.init()\n"
        "gpu = ctypes.CDLL(os.environ['MEMREPLAY_DRYRUN_CARD']); at = ctypes.c_void_p()\n"
        "allocator = ctypes.CDLL(os.path.join(torch.__path__[0], 'lib/libc10.so'))\n"
        "gpu.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(1 << 20))\n"
        "def tell(slot): allocator.tell(slot, at)\n"
        "def read():\n"
        "    out = ctypes.create_string_buffer(3)\n"
        "    gpu.cudaMemcpy(out, at, ctypes.c_size_t(3), 2)\n"
        "    return out.raw\n"
        "tell(4); gpu.cudaMemcpy(at, b'abc', ctypes.c_size_t(3), 1); print(read())\n"
        "tell(3); print(read())\n"
        "tell(5); print(read())\n"
    )
    done = dry.run(code)
    assert done.stdout == "b'abc'\nb'abc'\nb'\\x00\\x00\\x00'\n", done.stderr


def test_torch_with_other_trace_hooks_runs(dry: Dry) -> None:
    header = dry.folder / "torch/include/c10/core/impl/PyInterpreter.h"
    header.parent.mkdir(parents=True)
    header.write_text(HEADER)
    done = dry.run("import torch; torch.cuda.init()")  # without libc10.so
    assert (done.returncode, done.stderr) == (0, "")


def test_free_stacks_are_off_if_torch_would_lose_exceptions(dry: Dry) -> None:
    for version in ("2.10.1", "2.11.0+cu130"):
        dry.run(f"import torch; torch.__version__ = {version!r}; torch.cuda.init()")
    contexts = [snapshot["asked"][0][1].get("context") for snapshot, _ in dry.written]
    assert sorted(contexts, key=str) == [None, "alloc"]


def test_programs_later_recording_keeps_its_own_options(dry: Dry) -> None:
    dry.run(
        "import torch; torch.cuda.init(); record = torch.cuda.memory._record_memory_history\n"
        "record(None); record(max_entries=5); record(max_entries=6)"
    )
    ((snapshot, beside),) = dry.written
    _, *others = snapshot["asked"]
    assert others == [
        [None, {}],
        ["all", {"clear_history": True, "max_entries": 5}],
        ["all", {"max_entries": 6}],
    ]
    assert beside["recorded_by_itself"] is True
