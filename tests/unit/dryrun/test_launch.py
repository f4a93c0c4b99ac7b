"""Tests of dryrun/launch.py: a command's environment, and the output of its processes.

tests/unit/commands/dryrun/test_command.py tests signals, and the ways in which programs end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import struct
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from memreplay.dryrun import launch, runtime
from memreplay.dryrun.cards import find
from memreplay.dryrun.installing import Installer
from memreplay.dryrun.launch import Ended, Process, Setup, run
from memreplay.dryrun.runtime import NoCudaError
from memreplay.errors import UsageError
from tests.unit.dryrun.fake_torch import MIB, write_torch

CARD = find("T4")
TAKE = "import torch; torch.take(3 << 20)"


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder for a run's output. torch can be imported from it, and its temporary
    files are in `passing`.
    """
    for name in ("out", "passing", "packages"):
        (tmp_path / name).mkdir()
    write_torch(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "passing"))
    for name in ("RANK", "WORLD_SIZE", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "out"


def ran(out: Path, code: str, **setup: Any) -> Ended:
    asked = Setup(**{"card": CARD, "total_bytes": CARD.bytes, **setup})
    ended = run([sys.executable, "-c", code], asked, out)
    assert list((out.parent / "passing").iterdir()) == []
    return ended


def test_result_describes_a_command_that_ended(out: Path) -> None:
    ended = ran(out, TAKE + "; raise SystemExit(7)")
    assert (ended.status, ended.timed_out, ended.interrupted, ended.cuda) == (7, False, False, 13)
    assert (ended.torch.version, ended.torch.cudnn) == ("9.9", 92600)
    assert 0 < ended.seconds < 60
    assert {"cusparseStrange", "cusparseStrangeGetSize"} <= set(ended.unanswered)
    (process,) = ended.processes
    assert process.pickle == out / f"{process.pid}.pickle"
    assert process.facts["cards"] == [
        {"name": "Tesla T4", "total_bytes": CARD.bytes, "context_bytes": CARD.context_bytes}
    ]
    assert process.last_call.startswith("cu")


def test_stdout_belongs_to_the_program(out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran(out, "print('words')")
    assert capfd.readouterr() == ("words\n", "")
    with (out.parent / "words").open("w") as file:
        ran(out, "print('words')", stdout=file.fileno())
    assert (out.parent / "words").read_text() == "words\n"
    assert capfd.readouterr() == ("", "")


def test_program_sees_the_simulated_cards(out: Path) -> None:
    code = "import torch; torch.cuda.init(); print(torch.cuda.device_count())"
    (process,) = ran(out, code, total_bytes=700 * MIB, cards=4).processes
    card = {"name": "Tesla T4", "total_bytes": 700 * MIB, "context_bytes": CARD.context_bytes}
    assert process.facts["cards"] == [card] * 4


def test_process_that_only_counts_cards_is_not_listed(out: Path) -> None:
    ended = ran(out, "import torch; torch.cuda.device_count()")
    assert ended.processes == ()
    assert list(out.iterdir()) != []  # it called


def test_processes_are_ordered_by_rank(out: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "for rank in ('2', '10', ''):\n"
        "    more = {'RANK': rank} if rank else {}\n"
        f"    subprocess.run([sys.executable, '-c', {TAKE!r}], env=os.environ | more)\n"
    )
    assert [one.facts["rank"] for one in ran(out, code).processes] == [2, 10, None]


def test_incomplete_records_do_not_count(out: Path) -> None:
    """A process leaves incomplete records if it's killed while it writes its snapshot."""
    (out / "77.pickle").write_bytes(b"half")
    (out / "77.calls").write_bytes(struct.pack("=64sQQQQ", b"cudaMalloc", 9, 1, 1, 0))
    (out / "78.json.part").write_text("{")
    (out / "79.calls").write_bytes(b"short")
    (out / "80.calls").write_bytes(struct.pack("=64sQQQQ", b"cudaGetDeviceCount", 1, 0, 0, 0))
    (out / "81.json").write_text(json.dumps({"rank": 0}))
    (out / "not.a.process").touch()
    half, whole = sorted(ran(out, "").processes, key=lambda one: one.pid)
    assert half == Process(77, None, {}, "cudaMalloc")
    assert whole == Process(81, out / "81.pickle", {"rank": 0}, "")


@pytest.mark.parametrize("gap", [" ", ":"])
def test_library_path_may_contain_a_space(
    out: Path, monkeypatch: pytest.MonkeyPatch, gap: str
) -> None:
    """The loader would treat it as two paths."""
    odd = out.parent / f"my{gap}packages"
    odd.mkdir()
    for name in ("_gpu", "_unanswered", "_thin", "_operators"):
        shutil.copy(runtime.built(name), odd)
    monkeypatch.setattr(runtime, "HERE", odd)
    (process,) = ran(out, TAKE).processes
    assert process.facts["statistics"]


def test_temporary_path_may_contain_a_space(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = out.parent / "my passing: files"
    odd.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    (process,) = ran(out, TAKE).processes
    assert process.facts["statistics"]
    assert list(odd.iterdir()) == []


def test_program_that_does_not_start_is_an_error(out: Path) -> None:
    bad = out.parent / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    setup = Setup(CARD, CARD.bytes)
    words = rf"^{shlex.quote(str(bad))} doesn't run: No such file or directory$"
    with pytest.raises(UsageError, match=words):
        run([str(bad)], setup, out)
    assert list((out.parent / "passing").iterdir()) == []


@pytest.mark.parametrize(
    "card, cuda, words",
    [
        (
            "P100",
            13,
            r"P100 has compute capability 6\.0, .* CUDA 13, .* at least 7\.5; use a t",
        ),
        ("V100-16", 13, r"7\.0"),
        ("B200", 11, r"B200 has compute capability 10\.0, .* CUDA 11, which supports up to 9\.0"),
        ("T4", 13, None),
        ("P100", 12, None),
        ("B200", 12, None),
        ("B200", 14, None),
    ],
)
def test_card_for_which_torch_has_no_kernels_is_an_error(
    card: str, cuda: int, words: str | None
) -> None:
    if words is None:
        launch._check_card(find(card), cuda, Installer("python"))
        return
    with pytest.raises(NoCudaError, match=words):
        launch._check_card(find(card), cuda, Installer("python"))


def test_signal_handlers_are_restored(out: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(one) for one in numbers]
    read, write = os.pipe()
    os.set_blocking(write, False)
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        ran(out, "")
        assert [signal.getsignal(one) for one in numbers] == before
        assert signal.set_wakeup_fd(wakeup) == write
    finally:
        os.close(read)
        os.close(write)


def test_run_works_outside_the_main_thread(out: Path) -> None:
    found: list[Ended] = []
    one = threading.Thread(target=lambda: found.append(ran(out, TAKE)))
    one.start()
    one.join()
    assert [len(ended.processes) for ended in found] == [1]


def test_ignored_signals_stay_ignored(out: Path) -> None:
    """The command ignores them as well, as under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import os, signal; os.kill(os.getpid(), signal.SIGHUP); os.kill(os.getppid(), 1)"
        assert ran(out, code).status == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_missing_library_is_an_error(
    out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runtime, "HERE", tmp_path)
    monkeypatch.delattr(os, "ST_NOEXEC")  # as on macOS
    with pytest.raises(NoCudaError, match="dry runs need Linux"):
        run([sys.executable, "-c", ""], Setup(CARD, CARD.bytes), out)
