"""Tests of commands/dryrun/command.py: where snapshots go, with one process or several."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.dryrun.cards import find
from tests.unit.commands.dryrun.conftest import Ground
from tests.unit.commands.dryrun.programs import FITS
from tests.unit.dryrun.fake_torch import GIB


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
    assert done.stdout.startswith("fits A100-80, ")
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
    # All processes use card 0 at the same time, so each has a CUDA context.
    assert (found["shared"], found["peak_bytes"]) == (True, 3 * GIB)
    assert found["outside_bytes"] == 3 * find("A100-80").context_bytes
    for one in there:
        Path(one).unlink()
    done = ground.ask("--total-memory", "2GiB")
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "does not fit A100-80: 2.2 GiB too much (estimate: 1.2 GiB outside PyTorch)\n"
    )
    assert "memory    3.0 GiB reserved at most\noutside   1.2 GiB (an estimate)\n" in done.stdout
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
    assert done.stdout.startswith("fits A100-80, ")


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
    assert done.stdout.startswith("fits A100-80, ")


def test_output_file_written_by_the_program_is_kept(ground: Ground) -> None:
    ground.program(FITS + "\nopen('mine.pickle', 'w').write('mine')")
    done = ground.ask("-o", "mine.pickle")
    assert done.exit_code == 2
    assert done.stdout.startswith("fits A100-80, ")
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
