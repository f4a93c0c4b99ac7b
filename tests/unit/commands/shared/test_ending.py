"""Tests of commands/shared/ending.py: processes that a signal interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memreplay.commands.shared import ending

EXAMPLE = Path(__file__).parents[4] / "tests/data/transformer_step.pkl.gz"


def halfway(tmp_path: Path, *args: str, hangup: Any = signal.SIG_DFL) -> subprocess.Popen[bytes]:
    """Start a command that has begun to write and waits for the rest of its input."""
    command = [sys.executable, "-m", "memreplay", args[0], "-", *args[1:]]
    pipe = subprocess.PIPE
    # These tests may run under nohup, and children inherit ignored signals.
    before = signal.signal(signal.SIGHUP, hangup)
    try:
        started = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert started.stdin is not None
    started.stdin.write(EXAMPLE.read_bytes()[:50_000])
    started.stdin.flush()
    late = time.monotonic() + 60
    while not any(tmp_path.iterdir()):
        assert started.poll() is None, started.communicate()
        assert time.monotonic() < late
        time.sleep(0.01)
    assert [one.suffix for one in tmp_path.iterdir()] == [".part"]
    return started


def ended(started: subprocess.Popen[bytes]) -> int:
    """Return the process's exit code. If it doesn't end, kill it and fail."""
    try:
        return started.wait(60)
    finally:
        started.kill()


def said_once_terminated(code: str) -> bytes:
    """Send SIGTERM to a program once it's ready, and return its output from then on."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"on\n"
        started.terminate()
        assert ended(started) == 128 + signal.SIGTERM
        return started.stdout.read()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("args", [("export", "-o", "x.pkl"), ("export", "-o", "tables/")])
def test_signal_leaves_no_partial_file(tmp_path: Path, args: tuple[str, ...], name: str) -> None:
    number = getattr(signal, name)
    started = halfway(tmp_path, *args)
    started.send_signal(number)
    out, errors = started.communicate(timeout=60)
    assert (started.returncode, out, errors) == (128 + number, b"", b"")
    assert os.listdir(tmp_path) == []


def test_command_keeps_running_under_nohup(tmp_path: Path) -> None:
    started = halfway(tmp_path, "export", "-o", "x.pkl", hangup=signal.SIG_IGN)
    started.send_signal(signal.SIGHUP)
    out, errors = started.communicate(EXAMPLE.read_bytes()[50_000:], timeout=60)
    assert (started.returncode, out) == (0, b"")
    assert errors.startswith(b"memreplay: wrote x.pkl: ")
    assert os.listdir(tmp_path) == ["x.pkl"]


def test_signal_reaches_a_blocked_main_thread() -> None:
    """The main thread waits in a call that signals don't interrupt, so the Python handler never
    runs.
    """
    code = (
        "import os, signal; from memreplay.commands.shared.ending import take_signals;"
        "take_signals(); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]);"
        "print('on', flush=True); os.read(os.pipe()[0], 1)"
    )
    # Threads inherit the signal mask of the thread that starts them, but the watching thread was
    # started without it.
    assert said_once_terminated(code) == b""


def test_main_thread_waits_while_another_cleans_up() -> None:
    """Otherwise, the main thread would report missing files, or write a file while all are being
    removed.
    """
    code = (
        "import signal, time; from memreplay.commands.shared import ending\n"
        "def undo():\n"
        "    print('undoes', flush=True)\n"
        "    time.sleep(4)\n"
        "    print('undone', flush=True)\n"
        "ending.take_signals()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "with ending.undone_by_signals(undo):\n"
        "    print('on', flush=True)\n"
        "    time.sleep(3)\n"
        "    print('a step', flush=True)\n"
    )
    assert said_once_terminated(code) == b"undoes\nundone\n"


def test_main_thread_cleans_up_if_it_can() -> None:
    code = (
        "import signal, threading, time; from memreplay.commands.shared import ending\n"
        "def undo():\n"
        "    print(threading.current_thread() is threading.main_thread(), flush=True)\n"
        "ending.take_signals()\n"
        # The watching thread gets the signal at once, and the main thread between two sleeps.
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "with ending.undone_by_signals(undo):\n"
        "    print('on', flush=True)\n"
        "    while True: time.sleep(0.02)\n"
    )
    assert said_once_terminated(code) == b"True\n"


def test_signal_during_a_write_leaves_no_partial_file(tmp_path: Path) -> None:
    """A file can't be closed in the middle of a write."""
    code = (
        "import io, os, signal, time\n"
        "from memreplay.commands.shared import ending\n"
        "from memreplay.io.whole import Whole\n"
        "class Raw(io.FileIO):\n"
        "    def write(self, data):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
        "ending.take_signals()\n"
        "whole = Whole('x.pkl')\n"
        "with ending.undone_by_signals(whole.undo):\n"
        "    whole.begin()\n"
        "    whole._file = io.BufferedWriter(Raw(whole.part, 'wb'))\n"
        "    whole._file.write(b'some')\n"
        "    whole._file.flush()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=50)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, b"")
    assert os.listdir(tmp_path) == []


def test_second_signal_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second signal arrives in the same thread while that thread cleans up."""
    ended_with: list[object] = []
    monkeypatch.setattr("os._exit", ended_with.append)
    monkeypatch.setattr("time.sleep", lambda _: ended_with.append("waits"))
    ender = ending._Ender()

    class Interrupted(dict[str, Any]):
        def setdefault(self, key: str, value: Any = None) -> Any:
            before = key in self
            found = super().setdefault(key, value)
            if not before:
                ender.end(signal.SIGHUP)
            return found

    ender._owner = Interrupted()
    ender.end(signal.SIGTERM)
    assert ended_with == [128 + signal.SIGTERM]


@pytest.mark.parametrize("missing", ["os.pipe", "_thread.start_new_thread"])
def test_handler_is_the_fallback_without_a_pipe_or_thread(missing: str) -> None:
    error = "OSError(24, 'x')" if missing == "os.pipe" else "RuntimeError()"
    code = (
        "import os, signal, _thread\n"
        f"def fail(*_): raise {error}\n"
        f"{missing} = fail\n"
        "before = os.listdir('/dev/fd')\n"
        "from memreplay.commands.shared.ending import take_signals, undone_by_signals\n"
        "take_signals()\n"
        "assert os.listdir('/dev/fd') == before\n"
        "with undone_by_signals(lambda: print('undone', flush=True)):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    signal.pause()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, b"undone\n", b"")


def test_signal_does_not_wait_for_the_reader_of_the_output() -> None:
    command = [sys.executable, "-m", "memreplay", "export", str(EXAMPLE), "--format", "txt"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.read(1)
        started.terminate()
        assert ended(started) == 128 + signal.SIGTERM
