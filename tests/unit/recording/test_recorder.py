"""Tests of recording/recorder.py, over a stand-in for torch: what a program calls."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.errors import UsageError
from memreplay.recording import session as module
from memreplay.recording.recorder import Recorder
from tests.unit.recording.stand_in import OutOfMemoryError, Torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(module, "_observing", [])
    yield made
    assert not module._active


def events(path: str | Path) -> int:
    """How many a file has."""
    with mr.open(path) as snap:
        return snap.trace_events(0)


def test_it_shows_its_public_names_only(tmp_path: Path) -> None:
    recorder = mr.record(tmp_path / "snap.pickle")
    assert mr.record is Recorder
    assert dir(recorder) == ["dump", "path", "recording", "snapshot", "start", "step", "stop"]
    assert all(getattr(Recorder, name).__doc__ for name in dir(recorder))
    assert not hasattr(recorder, "__dict__")


def test_start_and_stop(torch: Torch, tmp_path: Path) -> None:
    path = tmp_path / "snap.pickle"
    recorder = mr.record(path, quiet=True)
    states = [recorder.recording]
    assert recorder.start() is recorder
    states.append(recorder.recording)
    torch.memory.take()
    assert len(recorder.snapshot()["device_traces"][0]) == 1
    assert recorder.stop() == str(path) == recorder.path
    assert [*states, recorder.recording] == [False, True, False]
    assert events(path) == 1
    # Calls after the end do nothing.
    assert recorder.stop() is None
    assert recorder.dump(tmp_path / "late.pickle") is None
    recorder.step()
    with pytest.raises(UsageError, match=r"nothing is recorded now: call snapshot\(\) between"):
        recorder.snapshot()
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pickle"]


def test_stop_knows_what_ended_the_program(torch: Torch, tmp_path: Path) -> None:
    recorder = mr.record(tmp_path / "snap.pickle", quiet=True)

    def program() -> None:
        recorder.start()
        try:
            torch.memory.take()
            torch.run_out()
        finally:
            torch.memory.take()
            recorder.stop()

    with pytest.raises(OutOfMemoryError):
        program()
    assert events(recorder.path) == 1  # that of the moment, and not of the end
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pickle"]


def test_a_decorated_function(torch: Torch, tmp_path: Path) -> None:
    @mr.record(tmp_path / "snap.pickle", quiet=True)
    def train(steps: int, *, more: int = 0) -> int:
        """Train."""
        for _ in range(steps + more):
            torch.memory.take()
        return steps

    assert (train.__name__, train.__doc__) == ("train", "Train.")
    assert train(2, more=1) == 2
    # A second call, and a third, do not write over the first one's file.
    assert train(1) == 1
    assert train(1) == 1
    found = {one.name: events(one) for one in tmp_path.iterdir()}
    assert found == {"snap.pickle": 3, "snap-1.pickle": 4, "snap-2.pickle": 5}


def test_a_decorated_coroutine(torch: Torch, tmp_path: Path) -> None:
    @mr.record(tmp_path / "snap.pickle", quiet=True)
    async def train() -> int:
        await asyncio.sleep(0)
        torch.memory.take()
        return 5

    assert asyncio.run(train()) == 5
    assert events(tmp_path / "snap.pickle") == 1


@pytest.mark.parametrize(
    "there, words",
    [
        (None, "memreplay.record needs PyTorch, and torch is not installed"),
        (Torch(()), "there is no CUDA or XPU device here; memreplay dryrun records without one"),
    ],
)
def test_without_a_device_there_is_a_warning(
    there: Torch | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", there)
    recorder = mr.record(tmp_path / "snap.pickle")
    with recorder as found:
        found.step()
        assert found.dump(tmp_path / "now.pickle") is None
        assert not found.recording
    assert recorder(lambda: 7)() == 7
    assert caplog.record_tuples == [("memreplay", logging.WARNING, f"nothing is recorded: {words}")]
    assert not list(tmp_path.iterdir())
    # The program's own error is its own.
    with pytest.raises(KeyError), mr.record(tmp_path / "snap.pickle", quiet=True):
        raise KeyError
    assert len(caplog.records) == 1
    with pytest.raises(UsageError, match=words):
        mr.record(tmp_path / "snap.pickle", strict=True).start()


def test_wrong_arguments_are_errors_without_a_device_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would fail on the machine that has one."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="model: a torch"):
        mr.record(tmp_path / "snap.pickle", model="gpt").start()
    with pytest.raises(UsageError, match="there is no folder"):
        mr.record(tmp_path / "none" / "snap.pickle")


def said(program: str, folder: Path) -> str:
    """The stderr of a program without a device."""
    code = f"import sys, logging\nsys.modules['torch'] = None\nimport memreplay as mr\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stdout == ""
    return done.stderr


def test_a_program_without_logging_has_it_on_stderr(tmp_path: Path) -> None:
    record = "with mr.record(): pass"
    words = "nothing is recorded: memreplay.record needs PyTorch, and torch is not installed"
    assert said(record, tmp_path) == f"memreplay: {words}\n"
    assert said(f"logging.basicConfig()\n{record}", tmp_path) == f"WARNING:memreplay:{words}\n"
    level = "logging.getLogger('memreplay').setLevel(logging.ERROR)"
    assert said(f"{level}\n{record}", tmp_path) == ""
