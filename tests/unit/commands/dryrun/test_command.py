"""Tests of commands/dryrun/command.py: run programs with the tests' own torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import memreplay as mr
from memreplay.commands.dryrun.command import command
from memreplay.dryrun.cards import find
from tests.unit.commands.dryrun.conftest import Ground
from tests.unit.commands.dryrun.programs import FITS, IN_ALL
from tests.unit.dryrun.fake_torch import GIB, MIB, compile_, python_without


def test_program_that_fits_passes(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS)
    done = ground.ask("--gpu", "A100-80")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "fits A100-80, 77.8 GiB to spare (estimate: 419.8 MiB outside PyTorch)"
    assert lines[2] == f"program   {sys.executable} prog.py"
    assert "card      NVIDIA A100-SXM4-80GB, 79.3 GiB" in done.stdout
    assert "snapshot  dryrun.pickle\n" in done.stdout
    assert "numbers   exact: measured with PyTorch's own allocator" in done.stdout
    assert "device 0: peak 1.0 GiB requested" in done.stdout
    assert "work/prog.py:5" in done.stdout
    out, err = capfd.readouterr()
    assert (out, err) == ("the program's own words\n", "")
    assert ground.left() == ["dryrun.pickle"]
    snap = mr.open("dryrun.pickle")
    assert snap.recorder["recorder"] == "dryrun"
    assert snap.card_bytes(0) == find("A100-80").bytes


def test_stdout_has_only_json(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS)
    found, code = ground.told("--gpu", "T4")
    assert code == 0
    assert capfd.readouterr() == ("", "the program's own words\n")
    assert (found["outcome"], found["verdict"], found["exit_code"]) == ("ended", "fits", 0)
    assert found["peak_bytes"] == IN_ALL
    card = found["card"]
    assert found["spare_bytes"] == card["total_memory_bytes"] - card["context_bytes"] - IN_ALL
    assert (card["key"], card["name"], card["count"]) == ("T4", "Tesla T4", 1)
    assert (found["torch"], found["exact"], found["error"]) == ("9.9", True, None)
    assert (found["shown"], found["ooms"]) == ("dryrun.pickle", [])
    (process,) = found["processes"]
    assert process["file"] == "dryrun.pickle"
    (device,) = process["devices"]
    assert (device["reserved_peak_bytes"], device["requested_peak_bytes"]) == (
        IN_ALL,
        GIB + 5 * MIB,
    )


def test_only_some_ranks_run(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(
        "import os, torch\n"
        "names = 'RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'MEMREPLAY_DRYRUN_RANKS'\n"
        "print(*map(os.environ.get, names), flush=True)\n"
        "torch.take((1 + int(os.environ['RANK'])) << 20)\n"
    )
    found, code = ground.told("--world-size", "16", "--rank", "3,9")
    assert code == 0
    assert (found["world_size"], found["ranks_ran"], found["card"]["count"]) == (16, [3, 9], 8)
    assert len(found["processes"]) == 2
    assert sorted(capfd.readouterr().err.splitlines()) == ["3 3 16 3,9/16", "9 1 16 3,9/16"]
    # The fake torch has no groups, so all that may differ are the first ranks, the middle, the end.
    found, code = ground.told("--world-size", "16", "--rank", "distinct", "--force")
    assert (code, found["ranks_ran"]) == (0, [0, 1, 8, 15])
    assert len({one["sizes_digest"] for one in found["processes"]}) == 4
    lines = sorted(capfd.readouterr().err.splitlines())  # the first run, of rank 0, is silent
    assert lines == [f"{rank} {rank % 8} 16 0,1,8,15/16" for rank in (0, 1, 15, 8)]
    done = ground.ask("--world-size", "2", "--rank", "distinct", "--force")
    assert done.stderr == (
        "memreplay: running rank 0 first, to see its groups\nmemreplay: running ranks 0, 1\n"
    )


def test_source_lines_are_shown_on_request(ground: Ground) -> None:
    ground.program(FITS)
    for options in ((), ("--source",)):
        done = ground.ask(*options)
        assert done.exit_code == 0
        snap = mr.open("dryrun.pickle")
        said = {
            (one.line, one.source or None)
            for i in range(1, snap.code.stacks)
            for one in snap.stack(i)
        }
        lines = ("torch.take(5 << 20)", "torch.take(1 << 30)") if options else (None, None)
        assert said == {(5, lines[0]), (7, lines[1])}
        assert ("  > torch.take(1 << 30)\n" in done.stdout) is bool(options)


@pytest.mark.slow
def test_json_is_the_only_output_of_a_child_process(ground: Ground) -> None:
    ground.program(FITS)
    command = (sys.executable, "-m", "memreplay", "dryrun", "--format", "json")
    done = subprocess.run(
        [*command, "--", sys.executable, "prog.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "fits"
    assert done.stderr == "the program's own words\n"


def test_program_that_runs_out_of_memory_fails(
    ground: Ground, capfd: pytest.CaptureFixture[str]
) -> None:
    ground.program(FITS)
    done = ground.ask("--gpu", "T4", "--total-memory", "512MiB")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == (
        "does not fit: out of memory on 512.0 MiB (T4): 1.0 GiB requested, 372.9 MiB free"
    )
    close = "less than 64.0 MiB missing: it may fit"
    assert close not in done.stdout
    assert close in ground.ask("--gpu", "T4", "--total-memory", "1100MiB").stdout
    assert "device 0: 1.0 GiB request failed at event" in done.stdout
    # The card's size is known, so the memory used outside PyTorch is known, too.
    assert "card        512.0 MiB, 133.1 MiB used outside PyTorch" in done.stdout
    assert "size isn't in the file" not in done.stdout
    assert "OutOfMemoryError: CUDA out of memory." in capfd.readouterr().err
    found, code = ground.told("--gpu", "T4", "--total-memory", "512MiB")
    assert (code, found["outcome"], found["verdict"]) == (1, "out_of_memory", "does_not_fit")
    (device,) = found["ooms"]
    assert (device["total_memory_bytes"], device["total_memory_known"]) == (512 * MIB, True)
    assert found["error"] == (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 1073741824 bytes."
    )


def test_program_that_handles_out_of_memory_fits(ground: Ground) -> None:
    ground.program(
        "import torch\ntorch.take(1 << 20)\n"
        "try:\n    torch.take(1 << 40)\nexcept torch.OutOfMemoryError:\n    pass\n"
    )
    done = ground.ask()
    assert done.exit_code == 0
    assert done.stdout.startswith("fits ")
    assert (
        "1 request failed and the program continued; see memreplay oom dryrun.pickle" in done.stdout
    )


@pytest.mark.slow
def test_another_error_after_out_of_memory_is_reported(ground: Ground) -> None:
    ground.program(
        "import torch\n"
        "try:\n    torch.take(1 << 40)\n"
        "except torch.OutOfMemoryError:\n    raise KeyError('while it was handled')\n"
    )
    found, code = ground.told()
    assert (code, found["outcome"]) == (1, "out_of_memory")


@pytest.mark.slow
def test_programs_own_error_is_reported(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS + "raise ValueError('its own trouble \\x1b[31m')\n")
    done = ground.ask()
    assert done.exit_code == 6
    assert done.stdout.splitlines()[0] == (
        "the program failed with exit code 1, not for lack of memory: 1.0 GiB reserved at most"
        " until then"
    )
    assert r"ended by  ValueError: its own trouble \x1b[31m" in done.stdout
    assert "ValueError: its own trouble" in capfd.readouterr().err
    found, code = ground.told()
    assert (code, found["outcome"], found["verdict"]) == (6, "failed", "not_known")
    assert found["exit_code"] == 1


def test_program_may_fail_before_using_a_gpu(ground: Ground) -> None:
    ground.program("raise SystemExit(3)")
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (6, "")
    assert done.stderr == (
        "memreplay: error: the program ended with exit code 3 before it used a GPU\n"
    )
    assert ground.left() == []


CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n"


@pytest.mark.slow
def test_crash_is_reported_with_the_last_cuda_call(ground: Ground) -> None:
    ground.program(FITS + CRASH)
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (6, "")
    assert done.stderr == (
        "memreplay: error: the program was killed by SIGSEGV and left no snapshot; its last CUDA"
        " call was cudaMalloc\n"
    )
    ground.program(CRASH)
    assert "killed by SIGSEGV before it used a GPU" in ground.ask().stderr
    assert ground.left() == []


def test_unnamed_signal_is_reported_by_number(ground: Ground) -> None:
    ground.program(FITS + "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)\n")
    assert f"was killed by signal {signal.SIGRTMIN + 1} and left" in ground.ask().stderr


def test_terminated_program_writes_its_snapshot(ground: Ground) -> None:
    ground.program(FITS + "import os, signal; os.kill(os.getpid(), signal.SIGTERM)\n")
    done = ground.ask()
    assert done.exit_code == 6
    assert done.stdout.startswith("the program was killed by SIGTERM\n")
    assert "device 0: peak 1.0 GiB" in done.stdout


@pytest.mark.slow
def test_timeout_stops_the_program_and_reports_its_peak(ground: Ground) -> None:
    ground.program(FITS + "import time; time.sleep(60)\n")
    began = time.monotonic()
    found, code = ground.told("--timeout", "1.5")
    assert time.monotonic() - began < 30
    assert (code, found["outcome"], found["verdict"]) == (6, "timed_out", "not_known")
    assert (found["peak_bytes"], found["exit_code"]) == (IN_ALL, -signal.SIGTERM)
    ground.program("import time; time.sleep(60)")
    done = ground.ask("--timeout", "0.3")
    assert done.exit_code == 6
    assert "the program was stopped by --timeout before it used a GPU" in done.stderr


@pytest.mark.slow
def test_timeout_ends_all_child_processes(ground: Ground) -> None:
    ground.program(FITS + "import time; time.sleep(60)\n", "worker.py")
    ground.program(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, 'worker.py'], start_new_session=True).wait()\n"
    )
    found, code = ground.told("--timeout", "2")
    assert (code, found["outcome"], found["peak_bytes"]) == (6, "timed_out", IN_ALL)


def test_program_that_uses_no_gpu_is_an_error(ground: Ground) -> None:
    ground.program("import torch; print(torch.cuda.device_count())")
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (5, "")
    said = "the program used no GPU; its tensors must be on the device cuda"
    assert done.stderr == f"memreplay: error: {said}\n"


def test_python_must_load_the_recorder(ground: Ground) -> None:
    ground.program(f"import sys; sys.path.insert(0, {str(ground.packages)!r})\n" + FITS)
    done = ground.ask(program=(sys.executable, "-I", "prog.py"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("fits A100-80, ")


# ---- requirements


def test_missing_torch_is_an_error(ground: Ground, tmp_path: Path) -> None:
    ground.program("")
    python = str(python_without(tmp_path))
    os.environ["PYTHONPATH"] = ""  # otherwise the fixture's path would make torch available again
    done = ground.ask(program=(python, "prog.py"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{python} has no torch; install it: `" in done.stderr
    assert done.stderr.count(f"{python} ") >= 3  # in each line
    assert " --no-deps torch`, then `" in done.stderr


def test_torch_without_cuda_is_an_error(ground: Ground) -> None:
    ground.program("")
    (ground.torch / "lib/libtorch_cuda.so").unlink()
    done = ground.ask()
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    line = f"`{sys.executable} -m pip install --force-reinstall --no-deps torch`"
    assert f"this torch (9.9) was built without CUDA; replace it with the CUDA build: {line}" in (
        done.stderr
    )
    assert "or estimate a training step with this torch: memreplay.estimate in Python" in (
        done.stderr
    )
    write_hip = ground.torch / "lib/libtorch_hip.so"
    write_hip.symlink_to("/proc/self/exe")
    done = ground.ask()
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "this torch was built for AMD; a dry run needs a CUDA build" in done.stderr


@pytest.mark.parametrize(
    "options, words",
    [
        (("--gpu", "A100-8O"), "unknown card 'A100-8O': did you mean A100-80"),
        (("--total-memory", "1KiB"), "--total-memory 1.0 KiB: CUDA itself takes"),
        (("--gpus", "0"), "0 is not between 1 and 64"),
        (("--timeout", "0"), "'0' is not a number of seconds"),
        (
            ("-o", "run.json"),
            "run.json: snapshots are pickles; end the name in .pickle",
        ),
        (("-o", "nowhere/run.pickle"), "there is no directory"),
        (("-o", "-"), ": give a file name, because stdout belongs to the program"),
        (("-o", "new/"), "give a file name"),
        (("-o", "/dev/null"), "cannot write /dev/null: it isn't a file"),
        (("--compare", "T4,,L4"), "--compare needs cards or settings"),
        (("--compare", "T4,L5"), "unknown card 'L5'"),
    ],
)
def test_usage_errors_are_reported(ground: Ground, options: tuple[str, ...], words: str) -> None:
    ground.program("print('it ran')")
    done = ground.ask(*options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert ground.left() == []


def test_unknown_program_is_an_error(ground: Ground) -> None:
    done = ground.ask(program=("no-such-command",))
    assert done.stderr == "memreplay: error: no-such-command: command not found\n"
    ground.program("")
    done = ground.ask(program=("./prog.py",))
    assert done.exit_code == 2
    assert ": command not found; to run a script: python ./prog.py" in done.stderr
    assert ground.ask(program=()).exit_code != 0


# ---- other options


@pytest.mark.slow
@pytest.mark.parametrize("option, limit", [("--max-peak", "1GiB"), ("--max-reserved", "1.001GiB")])
def test_program_over_its_budget_fails(ground: Ground, option: str, limit: str) -> None:
    ground.program(FITS)
    done = ground.ask(option, limit)
    assert done.exit_code == 1
    assert done.stdout.startswith("over its budget: FAIL peak ")
    done = ground.ask(option, "2GiB")
    assert done.exit_code == 0
    assert done.stdout.startswith("fits A100-80, ")
    assert "budget    PASS peak " in done.stdout
    found, code = ground.told(option, limit)
    assert (code, found["verdict"], found["outcome"]) == (1, "over_budget", "ended")


@pytest.mark.slow
def test_budget_is_not_judged_after_out_of_memory(ground: Ground) -> None:
    ground.program(FITS)
    found, code = ground.told("--total-memory", "1GiB", "--max-peak", "100GiB")
    assert (code, found["verdict"]) == (1, "does_not_fit")


UNKNOWN = """
import torch
from torch.cuda import library
torch.take(1 << 20)
library()._ZN2at4_ops7nonzero4callEv()
for _ in range(3):
    library()._ZN2at4_ops19_local_scalar_dense4callEv()
library().workspace()
library().strange()
"""


@pytest.mark.slow
def test_reads_of_gpu_values_are_listed(ground: Ground) -> None:
    ground.program(UNKNOWN)
    found, code = ground.told()
    assert (code, found["exact"]) == (0, False)
    where = {"file": str(ground.folder / "prog.py"), "function": "<module>"}
    reads = [
        {
            name: one[name]
            for name in ("operator", "line", "count", "makes_sizes", "file", "function")
        }
        for one in found["reads"]
    ]
    assert reads == [
        {"operator": "nonzero", "line": 5, "count": 1, "makes_sizes": True, **where},
        {"operator": "item", "line": 7, "count": 3, "makes_sizes": False, **where},
    ]
    assert found["workspaces"] == [{"name": "cuDNN", "count": 1}]
    assert found["unanswered"] == [{"name": "cusparseStrangeGetSize", "count": 1}]
    done = ground.ask()
    assert done.stdout.startswith("fits A100-80, as far as is known, ")
    words = " ".join(done.stdout.split())
    assert (
        "sizes depend on GPU values that a dry run doesn't compute (zeros) nonzero in <mod" in words
    )
    assert "item in <module> prog.py:7 (3 times)" in words
    assert "workspaces of cuDNN aren't counted (1 call)" in words
    assert "unsupported functions were called: cusparseStrangeGetSize (1)" in words


@pytest.mark.slow
def test_estimates_in_the_peak_are_named(ground: Ground) -> None:
    ground.program(
        "import torch\nfrom torch.cuda import library\ntorch.take(library().generators())\n"
    )
    found, code = ground.told("--gpu", "A100-80")
    n_bytes = 108 * 2048 * 24
    assert (code, found["exact"], found["peak_bytes"] >= n_bytes) == (0, False, True)
    assert found["estimates"] == [
        {
            "name": "recurrent networks",
            "count": 1,
            "peak_bytes": n_bytes,
            "error_bytes": n_bytes // 100,
            "benchmark": False,
        }
    ]
    words = " ".join(ground.ask("--gpu", "A100-80").stdout.split())
    assert words.startswith("fits A100-80, ")
    assert "estimate: cuDNN's workspaces for recurrent networks, 5.1 MiB of the peak" in words


@pytest.mark.slow
def test_measured_workspaces_reach_the_program(
    ground: Ground, capfd: pytest.CaptureFixture[str]
) -> None:
    row = {"op": "GRU", "input": 1, "hidden": 2, "layers": 3, "bidirectional": False, "batch": 4}
    row |= {"time": 5, "dtype": "float16", "dropout": 0, "workspace": 6, "reserve": 7}
    Path("measured.jsonl").write_text(f'{{"device": "NVIDIA L4"}}\n{json.dumps(row)}\n')
    ground.program(f"import os\nprint(open(os.environ['MEMREPLAY_GPU_WORKSPACES']).read())\n{FITS}")
    found, code = ground.told("--workspaces", "measured.jsonl")
    assert (code, found["workspaces_source"]) == (0, "NVIDIA L4")
    key = "GRU float16 input=1 hidden=2 layers=3 directions=1 dropout=0 batch=4 time=5"
    assert f"{key}\t6 7\n" in capfd.readouterr().err
    Path("measured.jsonl").write_text("{")
    done = ground.ask("--workspaces", "measured.jsonl")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "measured.jsonl, line 1: not JSON" in done.stderr


@pytest.mark.slow
def test_program_may_fail_because_of_unknown_values(ground: Ground) -> None:
    ground.program(UNKNOWN + "raise SystemExit(3)")
    done = ground.ask()
    assert done.exit_code == 6
    assert "with real values it may not fail" in " ".join(done.stdout.split())
    ground.program("import torch; torch.take(1 << 20); raise SystemExit(3)")
    assert "real ones" not in ground.ask().stdout


def test_paths_in_other_folders_are_shortened(ground: Ground) -> None:
    """The list of call sites is limited, too."""
    deep = ground.packages / "one/two/three"
    deep.mkdir(parents=True)
    reads = "\n".join(["library()._ZN2at4_ops19_local_scalar_dense4callEv()"] * 6)
    (deep / "four.py").write_text(f"from torch.cuda import library\n{reads}\n")
    ground.program(
        f"import sys, torch; torch.take(1 << 20)\nsys.path.append({str(deep)!r})\nimport four"
    )
    words = " ".join(ground.ask().stdout.split())
    assert "item in <module> …/two/three/four.py:2 item" in words
    assert "and 1 more place " in words


ENVIRONMENT = """
import json, os, torch
torch.take(1 << 20)
with open("environment.json", "w") as file:
    json.dump(dict(os.environ), file)
"""


@pytest.mark.slow
def test_program_gets_the_environment(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mine = compile_(tmp_path, "int mine;", "mine.so", "-shared", "-fPIC")
    monkeypatch.setenv("LD_PRELOAD", str(mine))
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MINE"):
        monkeypatch.setenv(name, "7")
    ground.program(ENVIRONMENT)
    found, _ = ground.told("--set", "expandable_segments:True", "--gpus", "3")
    assert (found["settings"], found["card"]["count"]) == ("expandable_segments:True", 3)
    got = json.loads(Path("environment.json").read_text())
    assert got["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert got["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert got["LD_PRELOAD"].endswith(f":{mine}")
    assert got["PYTHONPATH"].split(":")[1:] == [str(ground.packages)]
    assert got["MEMREPLAY_CUDNN"] == "92600"
    assert got["MEMREPLAY_DRYRUN_STACKS"] == "auto"
    assert "MEMREPLAY_DRYRUN_ENTRIES" not in got
    assert got["MINE"] == "7"
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & set(got)


def test_allocator_settings_of_the_environment_are_kept(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "mine:1")
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    ground.program(ENVIRONMENT)
    assert ground.ask("--stacks", "all", "--max-entries", "9").exit_code == 0
    got = json.loads(Path("environment.json").read_text())
    assert got["PYTORCH_ALLOC_CONF"] == "mine:1"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in got
    assert (got["MEMREPLAY_DRYRUN_STACKS"], got["MEMREPLAY_DRYRUN_ENTRIES"]) == ("all", "9")


@pytest.mark.slow
def test_programs_own_recording_is_kept(ground: Ground) -> None:
    ground.program(
        "import torch; torch.cuda.memory._record_memory_history(max_entries=5)\n"
        "torch.take(1 << 30); torch.cuda.memory._dump_snapshot('mine.pickle')\n"
    )
    found, code = ground.told()
    (process,) = found["processes"]
    assert code == 0
    assert process["recorded_by_itself"] is True
    assert process["dumped"] == [str(ground.folder / "mine.pickle")]
    assert found["shown"] == "dryrun.pickle"
    done = ground.ask()
    words = " ".join(done.stdout.split())
    assert "recorded itself, and wrote " in words


def test_folder_name_may_have_spaces(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my own: work"
    folder.mkdir()
    (folder / "prog.py").write_text(FITS)
    monkeypatch.chdir(folder)
    assert ground.ask().exit_code == 0
    assert [one.name for one in folder.iterdir() if one.suffix == ".pickle"] == ["dryrun.pickle"]


@pytest.mark.slow
def test_verdict_is_coloured(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ground.program(FITS)
    assert ground.ask().stdout.startswith("\x1b[32m\x1b[1mfits A100-80, ")
    assert ground.ask("--total-memory", "1GiB").stdout.startswith("\x1b[31m\x1b[1mdoes not fit: ")
    ground.program(FITS + "raise SystemExit(1)")
    assert ground.ask().stdout.startswith("\x1b[33m\x1b[1mthe program failed")


# ---- several runs


@pytest.mark.slow
def test_cards_can_be_compared(ground: Ground) -> None:
    ground.program("import torch; torch.take(20 << 30)")
    done = ground.ask("--compare", "T4,A100-80, RTX 4090")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "memreplay: run 1 of 3: T4",
        "memreplay: run 2 of 3: A100-80",
        "memreplay: run 3 of 3: RTX4090",
    ]
    rows = [line.split("  ") for line in done.stdout.splitlines()]
    table = [[cell.strip() for cell in row if cell] for row in rows if row[0]]
    assert table[0] == ["run", "allocated", "reserved", "to spare", "exact", "verdict"]
    assert table[1][0] == "T4"
    assert table[1][-1] == "out of memory"
    assert table[2] == ["A100-80", "20.0 GiB", "20.0 GiB", "58.8 GiB", "yes", "fits"]
    assert table[3][0] == "RTX4090"
    assert table[3][-1] == "fits"
    assert ground.left() == [f"dryrun.{one}.pickle" for one in ("A100-80", "RTX4090", "T4")]
    assert ground.ask("--compare", "T4,L4", "--total-memory", "1GiB").exit_code == 1


@pytest.mark.slow
def test_settings_can_be_compared_as_json(ground: Ground) -> None:
    ground.program(
        "import os, torch\n"
        "large = os.environ['PYTORCH_ALLOC_CONF'] == 'a:1,b:2'\n"
        "torch.take(4 << 30 if large else 2 << 30)\n"
    )
    found, code = ground.told("--compare", "a:1+b:2,expandable_segments:True", "-o", "x.pickle")
    assert code == 0
    assert [run["name"] for run in found["runs"]] == ["a:1+b:2", "expandable_segments:True"]
    assert [run["report"]["peak_bytes"] for run in found["runs"]] == [4 * GIB, 2 * GIB]
    assert [run["report"]["settings"] for run in found["runs"]] == [
        "a:1,b:2",
        "expandable_segments:True",
    ]
    assert ground.left() == ["x.a-1-b-2.pickle", "x.expandable_segments-True.pickle"]
    done = ground.ask("--compare", "a:1+b:2,c:1", "-o", "x.pickle")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "x.a-1-b-2.pickle already exists" in done.stderr


@pytest.mark.slow
def test_comparison_shows_failed_runs(ground: Ground) -> None:
    ground.program("raise SystemExit(3)")
    done = ground.ask("--compare", "T4,L4")
    assert done.exit_code == 6
    assert done.stderr.count("the program ended with exit code 3 before it used a GPU") == 2
    ground.program("import torch; torch.take(1); raise SystemExit(3)")
    assert ground.ask("--compare", "T4,L4").exit_code == 6
    (ground.torch / "lib/libtorch_cuda.so").unlink()
    assert ground.ask("--compare", "T4,L4").exit_code == 2


def test_shell_completes_card_names() -> None:
    (option,) = (one for one in command.params if one.name == "gpu")
    context = click.Context(command)
    assert [one.value for one in option.shell_complete(context, "a100-8")] == [
        "A100-80",
        "A100-80-PCIe",
    ]
