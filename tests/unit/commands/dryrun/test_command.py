"""Tests of commands/dryrun/command.py: programs that are run, with a torch of the tests' own."""

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


def test_a_program_that_fits(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS)
    done = ground.ask("--gpu", "A100-80")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == ("fits: 1.0 GiB reserved at most of 78.8 GiB (A100-80), 77.8 GiB to spare")
    assert lines[2] == f"program   {sys.executable} prog.py"
    assert "card      NVIDIA A100-SXM4-80GB, 79.3 GiB" in done.stdout
    assert "snapshot  dryrun.pickle\n" in done.stdout
    assert "numbers   exact: PyTorch's own allocator" in done.stdout
    assert "device 0: peak 1.0 GiB requested" in done.stdout
    assert "work/prog.py:5" in done.stdout
    out, err = capfd.readouterr()
    assert (out, err) == ("the program's own words\n", "")
    assert ground.left() == ["dryrun.pickle"]
    snap = mr.open("dryrun.pickle")
    assert snap.recorder["recorder"] == "dryrun"
    assert snap.card_bytes(0) == find("A100-80").bytes


def test_json_is_all_that_stdout_has(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS)
    found, code = ground.told("--gpu", "T4")
    assert code == 0
    assert capfd.readouterr() == ("", "the program's own words\n")
    assert (found["outcome"], found["verdict"], found["status"]) == ("ended", "fits", 0)
    assert found["peak_bytes"] == IN_ALL
    card = found["card"]
    assert found["spare_bytes"] == card["total_bytes"] - card["context_bytes"] - IN_ALL
    assert (card["key"], card["name"], card["count"]) == ("T4", "Tesla T4", 1)
    assert (found["torch"], found["exact"], found["error"]) == ("9.9", True, None)
    assert (found["shown"], found["oom"]) == ("dryrun.pickle", [])
    (process,) = found["processes"]
    assert process["file"] == "dryrun.pickle"
    (device,) = process["devices"]
    assert (device["reserved_peak_bytes"], device["requested_peak_bytes"]) == (
        IN_ALL,
        GIB + 5 * MIB,
    )


def test_lines_of_source_code_are_shown_if_they_are_asked_for(ground: Ground) -> None:
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
def test_json_of_a_process_of_its_own(ground: Ground) -> None:
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


def test_a_program_that_runs_out_of_memory(
    ground: Ground, capfd: pytest.CaptureFixture[str]
) -> None:
    ground.program(FITS)
    done = ground.ask("--gpu", "T4", "--total-memory", "512MiB")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == (
        "does not fit: out of memory on 512.0 MiB (T4): 1.0 GiB asked, 372.9 MiB free"
    )
    assert "device 0: 1.0 GiB failed at event" in done.stdout
    # The card's size is known, so what else was on it is, too.
    assert "the card    512.0 MiB, 133.1 MiB taken by others" in done.stdout
    assert "is not in the file" not in done.stdout
    assert "OutOfMemoryError: CUDA out of memory." in capfd.readouterr().err
    found, code = ground.told("--gpu", "T4", "--total-memory", "512MiB")
    assert (code, found["outcome"], found["verdict"]) == (1, "out_of_memory", "does_not_fit")
    (device,) = found["oom"]
    assert (device["total_bytes"], device["total_known"]) == (512 * MIB, True)
    assert found["error"] == (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 1073741824 bytes."
    )


def test_a_program_that_goes_on_without_what_it_asked_for(ground: Ground) -> None:
    ground.program(
        "import torch\ntorch.take(1 << 20)\n"
        "try:\n    torch.take(1 << 40)\nexcept torch.OutOfMemoryError:\n    pass\n"
    )
    done = ground.ask()
    assert done.exit_code == 0
    assert done.stdout.startswith("fits: 2.0 MiB reserved at most")
    assert "1 request failed, and the program went on: memreplay oom dryrun.pickle" in done.stdout


@pytest.mark.slow
def test_a_program_that_dies_of_another_error_after_one_of_memory(ground: Ground) -> None:
    ground.program(
        "import torch\n"
        "try:\n    torch.take(1 << 40)\n"
        "except torch.OutOfMemoryError:\n    raise KeyError('while it was handled')\n"
    )
    found, code = ground.told()
    assert (code, found["outcome"]) == (1, "out_of_memory")


@pytest.mark.slow
def test_a_program_that_fails_by_itself(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    ground.program(FITS + "raise ValueError('its own trouble \\x1b[31m')\n")
    done = ground.ask()
    assert done.exit_code == 6
    assert done.stdout.splitlines()[0] == (
        "the program failed with exit code 1, not for want of memory: 1.0 GiB reserved at most"
        " until then"
    )
    assert r"ended by  ValueError: its own trouble \x1b[31m" in done.stdout
    assert "ValueError: its own trouble" in capfd.readouterr().err
    found, code = ground.told()
    assert (code, found["outcome"], found["verdict"]) == (6, "failed", "not_known")
    assert found["status"] == 1


def test_a_program_that_fails_before_it_uses_a_gpu(ground: Ground) -> None:
    ground.program("raise SystemExit(3)")
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (6, "")
    assert done.stderr == (
        "memreplay: error: the program ended with exit code 3 before it used a GPU\n"
    )
    assert ground.left() == []


CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n"


@pytest.mark.slow
def test_a_program_that_crashes(ground: Ground) -> None:
    ground.program(FITS + CRASH)
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (6, "")
    assert done.stderr == (
        "memreplay: error: the program was killed by SIGSEGV and left no snapshot; its last call"
        " of CUDA was cudaMalloc\n"
    )
    ground.program(CRASH)
    assert "killed by SIGSEGV before it used a GPU" in ground.ask().stderr
    assert ground.left() == []


def test_a_signal_without_a_name(ground: Ground) -> None:
    ground.program(FITS + "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)\n")
    assert f"was killed by signal {signal.SIGRTMIN + 1} and left" in ground.ask().stderr


def test_a_program_that_is_terminated_has_left_its_snapshot(ground: Ground) -> None:
    ground.program(FITS + "import os, signal; os.kill(os.getpid(), signal.SIGTERM)\n")
    done = ground.ask()
    assert done.exit_code == 6
    assert done.stdout.startswith("the program was killed by SIGTERM\n")
    assert "device 0: peak 1.0 GiB" in done.stdout


@pytest.mark.slow
def test_a_program_whose_time_is_up(ground: Ground) -> None:
    ground.program(FITS + "import time; time.sleep(60)\n")
    began = time.monotonic()
    found, code = ground.told("--timeout", "1.5")
    assert time.monotonic() - began < 30
    assert (code, found["outcome"], found["verdict"]) == (6, "timed_out", "not_known")
    assert (found["peak_bytes"], found["status"]) == (IN_ALL, -signal.SIGTERM)
    ground.program("import time; time.sleep(60)")
    done = ground.ask("--timeout", "0.3")
    assert done.exit_code == 6
    assert "the program was stopped by --timeout before it used a GPU" in done.stderr


@pytest.mark.slow
def test_time_is_up_for_all_that_a_program_started(ground: Ground) -> None:
    ground.program(FITS + "import time; time.sleep(60)\n", "worker.py")
    ground.program(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, 'worker.py'], start_new_session=True).wait()\n"
    )
    found, code = ground.told("--timeout", "2")
    assert (code, found["outcome"], found["peak_bytes"]) == (6, "timed_out", IN_ALL)


def test_a_program_that_uses_no_gpu(ground: Ground) -> None:
    ground.program("import torch; print(torch.cuda.device_count())")
    done = ground.ask()
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr == "memreplay: error: the program used no GPU\n"


def test_a_python_that_leaves_the_recording_out(ground: Ground) -> None:
    ground.program(f"import sys; sys.path.insert(0, {str(ground.packages)!r})\n" + FITS)
    done = ground.ask(program=(sys.executable, "-I", "prog.py"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")


# ---- what it needs


def test_without_torch(ground: Ground, tmp_path: Path) -> None:
    ground.program("")
    python = str(python_without(tmp_path))
    os.environ["PYTHONPATH"] = ""  # the fixture's, which undoes it
    done = ground.ask(program=(python, "prog.py"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{python} has no torch; `{python} -m pip install --no-deps torch`" in done.stderr


def test_a_torch_without_cuda(ground: Ground) -> None:
    ground.program("")
    (ground.torch / "lib/libtorch_cuda.so").unlink()
    done = ground.ask()
    assert done.exit_code == 2
    assert "this torch was built without CUDA: `pip install --no-deps torch`" in done.stderr
    write_hip = ground.torch / "lib/libtorch_hip.so"
    write_hip.symlink_to("/proc/self/exe")
    done = ground.ask()
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "built for AMD's cards" in done.stderr


@pytest.mark.parametrize(
    "options, words",
    [
        (("--gpu", "A100-8O"), "no card is known as 'A100-8O': did you mean A100-80"),
        (("--total-memory", "1KiB"), "--total-memory 1.0 KiB: CUDA alone takes"),
        (("--gpus", "0"), "0 is not between 1 and 64"),
        (("--timeout", "0"), "'0' is not a number of seconds"),
        (("-o", "run.json"), "run.json: snapshots are pickles; name it .pickle"),
        (("-o", "nowhere/run.pickle"), "there is no directory"),
        (("-o", "-"), "name a file; stdout is the program's"),
        (("-o", "new/"), "name a file"),
        (("-o", "/dev/null"), "cannot write /dev/null: it is no file"),
        (("--compare", "T4,,L4"), "--compare takes cards or settings"),
        (("--compare", "T4,L5"), "no card is known as 'L5'"),
    ],
)
def test_wrong_usage(ground: Ground, options: tuple[str, ...], words: str) -> None:
    ground.program("print('it ran')")
    done = ground.ask(*options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert ground.left() == []


def test_no_such_command(ground: Ground) -> None:
    done = ground.ask(program=("no-such-command",))
    assert done.stderr == "memreplay: error: no-such-command: there is no such command\n"
    ground.program("")
    done = ground.ask(program=("./prog.py",))
    assert done.exit_code == 2
    assert "there is no such command; to run a script: python ./prog.py" in done.stderr
    assert ground.ask(program=()).exit_code != 0


# ---- where snapshots go


@pytest.mark.slow
def test_the_default_name_is_replaced(ground: Ground) -> None:
    ground.program(FITS)
    assert "dryrun.pickle (replaced)" not in ground.ask().stdout
    before = Path("dryrun.pickle").stat().st_ino
    done = ground.ask()
    assert done.exit_code == 0
    assert "snapshot  dryrun.pickle (replaced)\n" in done.stdout
    assert Path("dryrun.pickle").stat().st_ino != before


@pytest.mark.slow
def test_another_name_is_not(ground: Ground) -> None:
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


def test_compressed(ground: Ground) -> None:
    ground.program(FITS)
    assert ground.ask("-o", "run.pickle.gz").exit_code == 0
    assert ground.left() == ["run.pickle.gz"]
    plain = gzip.decompress(Path("run.pickle.gz").read_bytes())
    assert mr.open(plain).recorder == mr.open("run.pickle.gz").recorder


def test_a_link_is_followed(ground: Ground, tmp_path: Path) -> None:
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
def test_several_ranks(ground: Ground) -> None:
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
def test_several_processes_without_ranks(ground: Ground) -> None:
    ground.program(AT_ONE_TIME, "worker.py")
    ground.program(TOGETHER)
    found, code = ground.told()
    files = sorted(f"dryrun.pid{one['pid']}.pickle" for one in found["processes"])
    there = [f"{i}.there" for i in range(3)]
    assert (code, ground.left(), len(files)) == (0, there + files, 3)
    # All of them used card 0 at one time: each but the first has a context of its own there.
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
    assert "dryrun.pid" in done.stdout.partition("is of an earlier run")[0]


@pytest.mark.slow
def test_processes_one_after_the_other(ground: Ground) -> None:
    ground.program("import torch; torch.take(1 << 30)", "worker.py")
    ground.program(SEVERAL)
    found, code = ground.told()
    assert (code, found["shared"], found["peak_bytes"]) == (0, False, GIB)


@pytest.mark.slow
def test_a_process_that_outlives_the_command(ground: Ground) -> None:
    ground.program("import torch, time; torch.take(1 << 30); time.sleep(1)", "worker.py")
    ground.program('import subprocess, sys; subprocess.Popen([sys.executable, "worker.py"])')
    done = ground.ask()
    assert done.exit_code == 0
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")


def test_a_process_that_becomes_another_program(ground: Ground) -> None:
    ground.program("import torch; torch.take(1 << 20)", "worker.py")
    ground.program(
        "import os, sys, torch; torch.take(1 << 30)\n"
        "os.execv(sys.executable, [sys.executable, 'worker.py'])"
    )
    found, code = ground.told()
    assert (code, found["verdict"], found["exact"]) == (6, "not_known", False)
    assert [one["replaced"] for one in found["processes"]] == [True]


def test_a_path_that_somebody_else_has_set(ground: Ground) -> None:
    """What records is found all the same."""
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


def test_a_file_that_the_program_has_written(ground: Ground) -> None:
    ground.program(FITS + "\nopen('mine.pickle', 'w').write('mine')")
    done = ground.ask("-o", "mine.pickle")
    assert done.exit_code == 2
    assert done.stdout.startswith("fits: 1.0 GiB reserved at most")
    assert "could not be written: the program has written mine.pickle" in done.stdout
    assert Path("mine.pickle").read_text() == "mine"


@pytest.mark.slow
def test_too_few_cards(ground: Ground) -> None:
    ground.program("import torch; torch.cuda.init(); assert not torch.cuda.library().choose(2)")
    done = ground.ask()
    assert done.exit_code == 6
    assert "it asked for 3 cards: --gpus 3" in done.stdout
    assert ground.ask("--gpus", "3").exit_code == 0


@pytest.mark.slow
def test_one_of_several_crashes(ground: Ground) -> None:
    ground.program(
        "import os, sys, torch; torch.take(1 << 30)\nif sys.argv[1] == '1':\n    os.abort()\n",
        "worker.py",
    )
    ground.program(SEVERAL.replace("check=True", "check=False") + "raise SystemExit(9)\n")
    done = ground.ask(program=(sys.executable, "prog.py", "ranks"))
    assert done.exit_code == 6
    assert "failed with exit code 9" in done.stdout
    words = " ".join(done.stdout.split())
    assert "ended without a snapshot; its last call of CUDA: cudaMalloc" in words
    assert ground.left() == ["dryrun.rank0.pickle", "dryrun.rank2.pickle"]


# ---- what is asked besides


@pytest.mark.slow
@pytest.mark.parametrize("option, limit", [("--max-peak", "1GiB"), ("--max-reserved", "1.001GiB")])
def test_over_its_budget(ground: Ground, option: str, limit: str) -> None:
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
def test_a_program_that_runs_out_of_memory_is_no_matter_of_budgets(ground: Ground) -> None:
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
def test_what_is_not_known(ground: Ground) -> None:
    ground.program(UNKNOWN)
    found, code = ground.told()
    assert (code, found["exact"]) == (0, False)
    where = {"file": str(ground.folder / "prog.py"), "function": "<module>"}
    reads = [
        {name: one[name] for name in ("operator", "line", "count", "sizes", "file", "function")}
        for one in found["reads"]
    ]
    assert reads == [
        {"operator": "nonzero", "line": 5, "count": 1, "sizes": True, **where},
        {"operator": "item", "line": 7, "count": 3, "sizes": False, **where},
    ]
    assert found["workspaces"] == [{"name": "cuDNN", "count": 1}]
    assert found["unanswered"] == [{"name": "cusparseStrangeGetSize", "count": 1}]
    done = ground.ask()
    assert done.stdout.startswith("fits, as far as is known: ")
    words = " ".join(done.stdout.split())
    assert "sizes came from values that were not computed: all were zeros nonzero in <mod" in words
    assert "item in <module> prog.py:7 (3 times)" in words
    assert "workspaces of cuDNN are not counted (1 call)" in words
    assert "functions without an answer were called: cusparseStrangeGetSize (1)" in words


@pytest.mark.slow
def test_a_program_that_fails_by_what_is_not_known(ground: Ground) -> None:
    ground.program(UNKNOWN + "raise SystemExit(3)")
    done = ground.ask()
    assert done.exit_code == 6
    assert "with the real ones it may not fail" in " ".join(done.stdout.split())
    ground.program("import torch; torch.take(1 << 20); raise SystemExit(3)")
    assert "real ones" not in ground.ask().stdout


def test_places_in_other_folders_are_shortened(ground: Ground) -> None:
    """And no more of them are named than one looks at."""
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
def test_what_the_program_gets(
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


def test_settings_of_the_environment_are_kept(
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
def test_a_program_that_records_by_itself(ground: Ground) -> None:
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
    assert "recorded by itself: the snapshot has what it recorded; it wrote " in words


def test_words_and_processes_in_folders_with_spaces(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my own: work"
    folder.mkdir()
    (folder / "prog.py").write_text(FITS)
    monkeypatch.chdir(folder)
    assert ground.ask().exit_code == 0
    assert [one.name for one in folder.iterdir() if one.suffix == ".pickle"] == ["dryrun.pickle"]


@pytest.mark.slow
def test_colour(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
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
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup would have them ignore
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
    """What it said; of one that does not end, where it was."""
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


def test_ctrl_c(ground: Ground) -> None:
    ground.program(WAITS)
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does
    out, err = end_of(command)
    assert "stopped by Ctrl-C: 1.0 GiB reserved at most until then\n" in out
    assert "KeyboardInterrupt" in err  # the program's own
    assert command.returncode == 6
    assert ground.left() == ["dryrun.pickle", "there"]


def test_ctrl_c_before_there_is_anything_to_tell(ground: Ground) -> None:
    ground.program("import pathlib, time; pathlib.Path('there').touch(); time.sleep(60)\n")
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    os.killpg(command.pid, signal.SIGINT)
    out, err = end_of(command)
    assert (command.returncode, out) == (6, "")
    assert "error: the program was stopped by Ctrl-C before it used a GPU" in err


@pytest.mark.slow
def test_no_patience(ground: Ground) -> None:
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
def test_who_ends_memreplay_ends_the_program(ground: Ground, number: signal.Signals) -> None:
    ground.program("import os, pathlib\nprint(os.getpid(), flush=True)\n" + WAITS)
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    command.send_signal(number)
    out, _ = end_of(command)
    assert command.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(out.split()[0]), 0)
    # A batch system sends it at its limit: what was recorded until then is told.
    assert f"stopped by {number.name}: 1.0 GiB reserved at most until then" in out
    assert ground.left() == ["dryrun.pickle", "there"]


def test_a_second_signal_ends_it_at_once(ground: Ground) -> None:
    """A program that doesn't end, or is still writing what it has; that it used a GPU is said."""
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
    assert "stopped by SIGTERM and the program left no snapshot: its last call of CUDA was" in err
    assert "before the program had used a GPU" not in err
    assert ground.left() == ["there"]


def test_a_signal_while_the_snapshot_is_written(ground: Ground) -> None:
    """The program had ended: it isn't said that it left no snapshot."""
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
    assert "stopped by SIGTERM and there is no snapshot: the program itself had ended, and" in err
    assert "last call" not in err
    assert ground.left() == ["there"]


def test_a_signal_before_the_program_used_a_gpu(ground: Ground) -> None:
    ground.program("import pathlib, time; pathlib.Path('there').touch(); time.sleep(60)\n")
    command = started(sys.executable, "prog.py")
    wait_for(Path("there"))
    command.send_signal(signal.SIGTERM)
    _, err = end_of(command)
    assert "stopped by SIGTERM before the program had used a GPU" in err


# ---- several runs


@pytest.mark.slow
def test_compare_cards(ground: Ground) -> None:
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
def test_compare_settings_as_json(ground: Ground) -> None:
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
def test_compare_programs_that_fail(ground: Ground) -> None:
    ground.program("raise SystemExit(3)")
    done = ground.ask("--compare", "T4,L4")
    assert done.exit_code == 6
    assert done.stderr.count("the program ended with exit code 3 before it used a GPU") == 2
    ground.program("import torch; torch.take(1); raise SystemExit(3)")
    assert ground.ask("--compare", "T4,L4").exit_code == 6
    (ground.torch / "lib/libtorch_cuda.so").unlink()
    assert ground.ask("--compare", "T4,L4").exit_code == 2


def test_a_shell_completes_cards() -> None:
    (option,) = (one for one in command.params if one.name == "gpu")
    context = click.Context(command)
    assert [one.value for one in option.shell_complete(context, "a100-8")] == [
        "A100-80",
        "A100-80-PCIe",
    ]
