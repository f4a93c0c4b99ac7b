"""Tests of commands/dryrun/command.py: signals to memreplay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.commands.dryrun.conftest import Ground
from tests.unit.commands.dryrun.programs import FITS


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
