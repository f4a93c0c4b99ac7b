"""Tests of commands/dryrun/command.py: run programs with the tests' own torch."""

from __future__ import annotations

import gzip
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
from tests.unit.dryrun.fake_torch import GIB, MIB, compile_, python_without

FITS = """
import torch
print("the program's own words")
def step():
    torch.take(5 << 20)
step()
torch.take(1 << 30)
"""
IN_ALL = GIB + 6 * MIB  # in whole pages


def test_program_that_fits_passes(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS)
    done = ground.ask("--gpu", "A100-80")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == ("fits: 1.0 GiB reserved at most of 78.8 GiB (A100-80), 77.8 GiB to spare")
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
    assert done.stdout.startswith("fits: 2.0 MiB reserved at most")
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
    assert done.stderr == "memreplay: error: the program used no GPU\n"


def test_python_must_load_the_recorder(ground: Ground) -> None:
    ground.program(f"import sys; sys.path.insert(0, {str(ground.packages)!r})\n" + FITS)
    done = ground.ask(program=(sys.executable, "-I", "prog.py"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")


# ---- requirements


def test_missing_torch_is_an_error(ground: Ground, tmp_path: Path) -> None:
    ground.program("")
    python = str(python_without(tmp_path))
    os.environ["PYTHONPATH"] = ""  # otherwise the fixture's path would make torch available again
    done = ground.ask(program=(python, "prog.py"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert (
        f"{python} has no torch; install it: `{python} -m pip install --no-deps torch`, then"
        f" `{python} -m pip install filelock "
    ) in done.stderr


def test_torch_without_cuda_is_an_error(ground: Ground) -> None:
    ground.program("")
    (ground.torch / "lib/libtorch_cuda.so").unlink()
    done = ground.ask()
    assert done.exit_code == 2
    hint = "`pip install --force-reinstall --no-deps torch` on Linux"
    assert f"this torch was built without CUDA; {hint}" in done.stderr
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


# ---- where snapshots go


@pytest.mark.slow
def test_default_file_is_replaced(ground: Ground) -> None:
    ground.program(FITS)
    assert "dryrun.pickle (replaced)" not in ground.ask().stdout
    before = Path("dryrun.pickle").stat().st_ino
    done = ground.ask()
    assert done.exit_code == 0
    assert "snapshot  dryrun.pickle (replaced)\n" in done.stdout
    assert Path("dryrun.pickle").stat().st_ino != before


@pytest.mark.slow
def test_named_file_is_not_replaced(ground: Ground) -> None:
    ground.program(FITS)
    Path("run.pickle").write_text("precious")
    done = ground.ask("-o", "run.pickle")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "run.pickle already exists; give --force to replace it" in done.stderr
    assert Path("run.pickle").read_text() == "precious"
    done = ground.ask("-o", "run.pickle", "--force")
    assert done.exit_code == 0
    assert "run.pickle (replaced)" in done.stdout
    assert ground.left() == ["run.pickle"]


def test_snapshot_can_be_compressed(ground: Ground) -> None:
    ground.program(FITS)
    assert ground.ask("-o", "run.pickle.gz").exit_code == 0
    assert ground.left() == ["run.pickle.gz"]
    plain = gzip.decompress(Path("run.pickle.gz").read_bytes())
    assert mr.open(plain).recorder == mr.open("run.pickle.gz").recorder


def test_link_is_followed(ground: Ground, tmp_path: Path) -> None:
    ground.program(FITS)
    Path("run.pickle").symlink_to(tmp_path / "elsewhere.pickle")
    assert ground.ask("-o", "run.pickle").exit_code == 0
    assert Path("run.pickle").is_symlink()
    assert mr.open(str(tmp_path / "elsewhere.pickle")).recorder


SEVERAL = """
import os, subprocess, sys
for rank in range(3):
    more = {"RANK": str(rank), "WORLD_SIZE": "3"} if sys.argv[1:] else {}
    subprocess.run([sys.executable, "worker.py", str(rank)], env=os.environ | more, check=True)
"""


@pytest.mark.slow
def test_each_rank_has_a_snapshot(ground: Ground) -> None:
    ground.program(
        "import sys, torch; i = int(sys.argv[1]); torch.take(i + 1 << 30, i)", "worker.py"
    )
    ground.program(SEVERAL)
    command = (sys.executable, "prog.py", "--nproc-per-node=3")
    done = ground.ask(program=command)
    assert (done.exit_code, done.stderr) == (0, "")
    files = [f"dryrun.rank{i}.pickle" for i in range(3)]
    assert ground.left() == files
    assert done.stdout.startswith("fits: 3.0 GiB reserved at most")
    assert "3 x NVIDIA A100-SXM4-80GB" in done.stdout
    assert "snapshot  dryrun.rank0.pickle and 2 more\n" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("rank ")]
    assert rows == [
        ["rank", str(i), str(i), f"{i + 1}.0", "GiB", f"{77.8 - i:.1f}", "GiB", files[i]]
        for i in range(3)
    ]
    found, _ = ground.told(program=command)
    assert [one["rank"] for one in found["processes"]] == [0, 1, 2]
    assert (found["shown"], found["shared"]) == (files[2], False)
    Path(files[1]).rename("run.rank1.pickle")
    done = ground.ask("-o", "run.pickle", program=command)
    assert "run.rank1.pickle already exists; give --force" in done.stderr
    assert ground.ask("-o", "run.pickle", "--force", program=command).exit_code == 0
    assert Path("run.rank2.pickle").exists()


AT_ONE_TIME = """
import pathlib, sys, time, torch
torch.take(1 << 30)
pathlib.Path(f"{sys.argv[1]}.there").touch()
while len(list(pathlib.Path().glob("*.there"))) < 3:
    time.sleep(0.01)
"""
TOGETHER = """
import subprocess, sys
them = [subprocess.Popen([sys.executable, "worker.py", str(i)]) for i in range(3)]
sys.exit(any([one.wait() for one in them]))
"""


@pytest.mark.slow
def test_processes_without_ranks_are_named_by_pid(ground: Ground) -> None:
    ground.program(AT_ONE_TIME, "worker.py")
    ground.program(TOGETHER)
    found, code = ground.told()
    files = sorted(f"dryrun.pid{one['pid']}.pickle" for one in found["processes"])
    there = [f"{i}.there" for i in range(3)]
    assert (code, ground.left(), len(files)) == (0, there + files, 3)
    # All processes use card 0 at the same time, so all but the first add a CUDA context.
    more = 2 * find("A100-80").context_bytes
    assert (found["shared"], found["peak_bytes"]) == (True, 3 * GIB + more)
    for one in there:
        Path(one).unlink()
    done = ground.ask("--total-memory", "2GiB")
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "does not fit: 3.8 GiB reserved at most of 1.6 GiB (A100-80), 2.2"
    )
    assert "several processes used one card: their peaks are added up" in done.stdout
    assert "dryrun.pid" in done.stdout.partition("is from an earlier run")[0]


@pytest.mark.slow
def test_sequential_processes_do_not_share_the_card(ground: Ground) -> None:
    ground.program("import torch; torch.take(1 << 30)", "worker.py")
    ground.program(SEVERAL)
    found, code = ground.told()
    assert (code, found["shared"], found["peak_bytes"]) == (0, False, GIB)


@pytest.mark.slow
def test_process_may_outlive_the_command(ground: Ground) -> None:
    ground.program("import torch, time; torch.take(1 << 30); time.sleep(1)", "worker.py")
    ground.program('import subprocess, sys; subprocess.Popen([sys.executable, "worker.py"])')
    done = ground.ask()
    assert done.exit_code == 0
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")


def test_result_is_unknown_if_a_process_executes_another_program(ground: Ground) -> None:
    ground.program("import torch; torch.take(1 << 20)", "worker.py")
    ground.program(
        "import os, sys, torch; torch.take(1 << 30)\n"
        "os.execv(sys.executable, [sys.executable, 'worker.py'])"
    )
    found, code = ground.told()
    assert (code, found["verdict"], found["exact"]) == (6, "not_known", False)
    assert [one["replaced"] for one in found["processes"]] == [True]


def test_recorder_is_found_if_a_program_clears_pythonpath(ground: Ground) -> None:
    """Child processes find the recorder anyway."""
    ground.program(
        f"import sys; sys.path.insert(0, {str(ground.packages)!r})\n" + FITS, "worker.py"
    )
    ground.program(
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, 'worker.py'], env={**os.environ, 'PYTHONPATH': ''})"
    )
    done = ground.ask()
    assert done.exit_code == 0
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")


def test_output_file_written_by_the_program_is_kept(ground: Ground) -> None:
    ground.program(FITS + "\nopen('mine.pickle', 'w').write('mine')")
    done = ground.ask("-o", "mine.pickle")
    assert done.exit_code == 2
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")
    assert "couldn't be written: the program wrote mine.pickle" in done.stdout
    assert Path("mine.pickle").read_text() == "mine"


@pytest.mark.slow
def test_message_says_how_many_cards_are_needed(ground: Ground) -> None:
    ground.program("import torch; torch.cuda.init(); assert not torch.cuda.library().choose(2)")
    done = ground.ask()
    assert done.exit_code == 6
    assert "it needs 3 cards: give --gpus 3" in done.stdout
    assert ground.ask("--gpus", "3").exit_code == 0


@pytest.mark.slow
def test_crash_of_one_of_several_processes_is_reported(ground: Ground) -> None:
    ground.program(
        "import os, sys, torch; torch.take(1 << 30)\nif sys.argv[1] == '1':\n    os.abort()\n",
        "worker.py",
    )
    ground.program(SEVERAL.replace("check=True", "check=False") + "raise SystemExit(9)\n")
    done = ground.ask(program=(sys.executable, "prog.py", "ranks"))
    assert done.exit_code == 6
    assert "failed with exit code 9" in done.stdout
    words = " ".join(done.stdout.split())
    assert "ended without a snapshot; its last CUDA call: cudaMalloc" in words
    assert ground.left() == ["dryrun.rank0.pickle", "dryrun.rank2.pickle"]


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
    assert done.stdout.startswith("fits: ")
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
    assert done.stdout.startswith("fits, as far as is known: ")
    words = " ".join(done.stdout.split())
    assert (
        "sizes depend on GPU values, which a dry run doesn't compute (all zeros) nonzero in <mod"
        in words
    )
    assert "item in <module> prog.py:7 (3 times)" in words
    assert "workspaces of cuDNN aren't counted (1 call)" in words
    assert "unsupported functions were called: cusparseStrangeGetSize (1)" in words


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
    assert "started its own recording, which is what the snapshot contains; it wrote " in words


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
    assert ground.ask().stdout.startswith("\x1b[32m\x1b[1mfits: ")
    assert ground.ask("--total-memory", "1GiB").stdout.startswith("\x1b[31m\x1b[1mdoes not fit: ")
    ground.program(FITS + "raise SystemExit(1)")
    assert ground.ask().stdout.startswith("\x1b[33m\x1b[1mthe program failed")


# ---- signals to memreplay


def started(*program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "memreplay", "dryrun", "--", *program]
    pipe, environment = subprocess.PIPE, os.environ | {"PYTHONFAULTHANDLER": "1"}
    before = signal.signal(
        signal.SIGHUP, signal.SIG_DFL
    )  # under nohup, programs would ignore the signal
    try:
        return subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
            env=environment,
        )
    finally:
        signal.signal(signal.SIGHUP, before)


def end_of(command: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the command's output. If the command doesn't end, fail and show its stacks."""
    try:
        return command.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        command.send_signal(signal.SIGABRT)
        raise AssertionError(command.communicate()) from None


def wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} does not come")


WAITS = FITS + "import pathlib, time; pathlib.Path('there').touch(); time.sleep(60)\n"


def test_ctrl_c_reports_the_peak_so_far(ground: Ground) -> None:
    ground.program(WAITS)
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    os.killpg(command.pid, signal.SIGINT)  # like a terminal
    out, err = end_of(command)
    assert "stopped by Ctrl-C: 1.0 GiB reserved at most until then\n" in out
    assert "KeyboardInterrupt" in err  # raised by the program's own handler
    assert command.returncode == 6
    assert ground.left() == ["dryrun.pickle", "there"]


def test_ctrl_c_before_a_gpu_is_used_is_an_error(ground: Ground) -> None:
    ground.program("import pathlib, time; pathlib.Path('there').touch(); time.sleep(60)\n")
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    os.killpg(command.pid, signal.SIGINT)
    out, err = end_of(command)
    assert (command.returncode, out) == (6, "")
    assert "error: the program was stopped by Ctrl-C before it used a GPU" in err


@pytest.mark.slow
def test_second_ctrl_c_kills_the_program(ground: Ground) -> None:
    ground.program("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + WAITS)
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    for _ in range(3):
        os.killpg(command.pid, signal.SIGINT)
        time.sleep(0.2)
    _, err = end_of(command)
    assert "error: the program was stopped by Ctrl-C and left no snapshot" in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminating_memreplay_terminates_the_program(
    ground: Ground, number: signal.Signals
) -> None:
    ground.program("import os, pathlib\nprint(os.getpid(), flush=True)\n" + WAITS)
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    command.send_signal(number)
    out, _ = end_of(command)
    assert command.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(out.split()[0]), 0)
    # A batch system sends SIGTERM at the time limit. Everything recorded so far is reported.
    assert f"stopped by {number.name}: 1.0 GiB reserved at most until then" in out
    assert ground.left() == ["dryrun.pickle", "there"]


def test_second_signal_kills_the_program_at_once(ground: Ground) -> None:
    """The program ignores the first signal or is still writing its snapshot. The report says that
    the program used a GPU.
    """
    ground.program("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS)
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    command.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert command.poll() is None
    began = time.monotonic()
    command.send_signal(signal.SIGTERM)
    out, err = end_of(command)
    assert time.monotonic() - began < 10
    assert (command.returncode, out) == (128 + signal.SIGTERM, "the program's own words\n")
    assert "stopped by SIGTERM and the program left no snapshot: its last CUDA call was" in err
    assert "before the program used a GPU" not in err
    assert ground.left() == ["there"]


def test_signal_while_the_snapshot_is_being_written(ground: Ground) -> None:
    """The message says that the program had ended, instead of naming its last CUDA call."""
    ground.program(
        "import pathlib, time, torch\ntorch.take(1 << 30)\n"
        "def slow():\n    pathlib.Path('there').touch()\n    time.sleep(60)\n"
        "torch.cuda.memory._snapshot = slow\n"
    )
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    for _ in range(2):
        command.send_signal(signal.SIGTERM)
        time.sleep(0.5)
    _, err = end_of(command)
    assert command.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM and left no snapshot: the program had ended, but its snapshot" in err
    assert "last call" not in err
    assert ground.left() == ["there"]


def test_signal_before_the_program_used_a_gpu_is_an_error(ground: Ground) -> None:
    ground.program("import pathlib, time; pathlib.Path('there').touch(); time.sleep(60)\n")
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    command.send_signal(signal.SIGTERM)
    _, err = end_of(command)
    assert "stopped by SIGTERM before the program used a GPU" in err


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
