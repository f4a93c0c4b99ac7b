"""Tests of recording/recorder.py, with a stand-in for torch: the functions that programs call."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.errors import UsageError
from memreplay.recording import history
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
    """Return the number of events in a file."""
    with mr.open(path) as snap:
        return snap.trace_events(0)


def test_only_public_names_are_listed(tmp_path: Path) -> None:
    recorder = mr.record(tmp_path / "snap.pickle")
    assert mr.record is Recorder
    assert dir(recorder) == [
        "dump",
        "holders",
        "path",
        "recording",
        "snapshot",
        "start",
        "step",
        "stop",
    ]
    assert all(getattr(Recorder, name).__doc__ for name in dir(recorder))
    assert not hasattr(recorder, "__dict__")


def test_events_between_start_and_stop_are_recorded(torch: Torch, tmp_path: Path) -> None:
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
    # Calls after the end have no effect.
    assert recorder.stop() is None
    assert recorder.dump(tmp_path / "late.pickle") is None
    recorder.step()
    with pytest.raises(UsageError, match=r"nothing is being recorded; call snapshot\(\) between"):
        recorder.snapshot()
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pickle"]


def test_stop_writes_the_events_up_to_out_of_memory(torch: Torch, tmp_path: Path) -> None:
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
    assert events(recorder.path) == 1  # the event count at that moment, not at the end
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pickle"]


def test_decorated_function_is_recorded_at_each_call(torch: Torch, tmp_path: Path) -> None:
    @mr.record(tmp_path / "snap.pickle", quiet=True)
    def train(steps: int, *, more: int = 0) -> int:
        """Train."""
        for _ in range(steps + more):
            torch.memory.take()
        return steps

    assert (train.__name__, train.__doc__) == ("train", "Train.")
    assert train(2, more=1) == 2
    # A second and a third call don't overwrite the first one's file.
    assert train(1) == 1
    assert train(1) == 1
    found = {one.name: events(one) for one in tmp_path.iterdir()}
    assert found == {"snap.pickle": 3, "snap-1.pickle": 4, "snap-2.pickle": 5}


def test_decorated_coroutine_is_recorded(torch: Torch, tmp_path: Path) -> None:
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
        (Torch(()), f"no CUDA or XPU device found; {history.WITHOUT}"),
    ],
)
def test_missing_device_gives_a_warning(
    there: Torch | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "memreplay")
    monkeypatch.setitem(sys.modules, "torch", there)
    recorder = mr.record(tmp_path / "snap.pickle")
    with recorder as found:
        found.step()
        assert found.dump(tmp_path / "now.pickle") is None
        assert not found.recording
    assert recorder(lambda: 7)() == 7
    warning, *more = caplog.record_tuples
    assert warning == ("memreplay", logging.WARNING, f"nothing is recorded: {words}")
    # Once, and only if there is a PyTorch whose memory could be of interest.
    assert [level for _, level, _ in more] == ([] if there is None else [logging.INFO])
    for _, _, text in more:
        assert re.fullmatch(r"the process used at most [0-9.]+ [KMG]iB of host memory", text)
    assert not list(tmp_path.iterdir())
    # The program's own error is raised.
    with pytest.raises(KeyError), mr.record(tmp_path / "snap.pickle", quiet=True):
        raise KeyError
    assert len(caplog.records) == 1 + len(more)
    with pytest.raises(UsageError, match=re.escape(words)):
        mr.record(tmp_path / "snap.pickle", strict=True).start()


def test_wrong_arguments_are_errors_even_without_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with a device, they would fail anyway."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="model: must be a torch"):
        mr.record(tmp_path / "snap.pickle", model="gpt").start()
    with pytest.raises(UsageError, match="no such folder"):
        mr.record(tmp_path / "none" / "snap.pickle")


def said(program: str, folder: Path) -> str:
    """Return the stderr of a program without a device."""
    code = f"import sys, logging\nsys.modules['torch'] = None\nimport memreplay as mr\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stdout == ""
    return done.stderr


def test_messages_go_to_stderr_without_logging(tmp_path: Path) -> None:
    record = "with mr.record(): pass"
    words = "nothing is recorded: memreplay.record needs PyTorch, and torch is not installed"
    assert said(record, tmp_path) == f"memreplay: {words}\n"
    assert said(f"logging.basicConfig()\n{record}", tmp_path) == f"WARNING:memreplay:{words}\n"
    level = "logging.getLogger('memreplay').setLevel(logging.ERROR)"
    assert said(f"{level}\n{record}", tmp_path) == ""
