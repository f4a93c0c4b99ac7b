"""Tests of recording/running_out.py: which failures leave a snapshot."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.recording import session
from memreplay.recording.running_out import Failures, Hooks, ran_out
from tests.unit.recording.stand_in import OutOfMemoryError, Torch


class Disk:
    """Counts the snapshots that a `Failures` saves."""

    def __init__(self) -> None:
        self.writes: list[str | None] = []
        self.full = False

    def save(self, replaces: str | None) -> str | None:
        self.writes.append(replaces)
        return None if self.full else replaces or f"{len(self.writes)}"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(session, "_observing", [])
    yield made
    assert not session._active


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def fail() -> None:
    raise KeyError


def test_first_failures_and_the_last_are_kept() -> None:
    disk = Disk()
    failures = Failures(disk.save)
    for _ in range(5):
        failures.failed()
        assert failures.has_last
    assert disk.writes == [None, None, None, "3", "3"]
    assert failures.saved == ["1", "2", "3"]


def test_program_that_always_retries_isnt_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write takes 20 seconds, and failures are a second apart."""
    disk, now = Disk(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def save(replaces: str | None) -> str | None:
        now[0] += 20
        return disk.save(replaces)

    failures = Failures(save)
    for _ in range(10):
        now[0] += 1
        failures.failed()
    assert len(disk.writes) == 3 + 2
    assert not failures.has(OutOfMemoryError())  # so the recording's end is written instead
    now[0] += 1000
    failures.failed()
    assert len(disk.writes) == 3 + 3
    assert failures.has(OutOfMemoryError())


def test_failure_without_a_snapshot_isnt_claimed() -> None:
    disk = Disk()
    failures = Failures(disk.save)
    failures.failed()
    disk.full = True
    failures.failed()
    assert not failures.has(OutOfMemoryError())


@pytest.mark.parametrize(
    "error, expected",
    [
        (OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("shape '[2]' is invalid"), False),
        (ValueError("out of memory"), False),
        (None, False),
    ],
)
def test_libraries_errors_mean_out_of_memory(error: BaseException | None, expected: bool) -> None:
    assert ran_out(error) == expected


def test_uncaught_error_is_saved_once() -> None:
    disk = Disk()
    failures = Failures(disk.save)
    failures.failed()  # PyTorch's observer
    failures.uncaught(OutOfMemoryError())
    assert len(disk.writes) == 1
    error = RuntimeError("CUDA error: out of memory")
    for _ in range(2):
        failures.uncaught(error)
    failures.uncaught(KeyError())
    assert len(disk.writes) == 2
    assert failures.has(error)
    assert not failures.has(RuntimeError("CUDA error: out of memory"))


def test_hooks_get_errors_and_pass_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *args: passed.append(args[1]))
    monkeypatch.setattr(threading, "excepthook", lambda args: passed.append(args.exc_value))
    before = sys.excepthook, threading.excepthook
    told: list[object] = []
    hooks = Hooks(told.append)
    error = KeyError()
    sys.excepthook(KeyError, error, None)
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert told[0] is error
    assert isinstance(told[1], KeyError)
    assert told == passed
    hooks.remove()
    assert (sys.excepthook, threading.excepthook) == before
    # A hook that the program sets later stays, and still calls ours, which does nothing then.
    hooks = Hooks(told.append)
    ours = sys.excepthook
    sys.excepthook = partial(ours)
    hooks.remove()
    sys.excepthook(KeyError, error, None)
    assert len(told) == 2
    assert sys.excepthook is not ours


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_librarys_error_in_a_thread_leaves_a_snapshot(
    torch: Torch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`")

    with mr.record(tmp_path / "snap.pickle"):
        torch.memory.take()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert names(tmp_path) == {"snap.oom.pickle"}
    assert names(tmp_path) == {"snap.oom.pickle", "snap.pickle"}
    assert f"run: memreplay oom {tmp_path / 'snap.oom.pickle'}" in caplog.text


def test_threads_that_fail_together_each_leave_a_snapshot(torch: Torch, tmp_path: Path) -> None:
    def work() -> None:
        for observer in torch.observers:
            observer(0, 1, 1, 0)

    with mr.record(tmp_path / "snap.pickle", quiet=True):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names(tmp_path) == {
        "snap.oom.pickle",
        "snap.oom-1.pickle",
        "snap.oom-2.pickle",
        "snap.pickle",
    }


def test_large_snapshot_of_a_failure_is_compressed(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memreplay.recording.writing.LARGE_BYTES", 10)

    def program() -> None:
        with mr.record(tmp_path / "snap.pickle", quiet=True):
            torch.memory.take()
            torch.run_out()

    with pytest.raises(OutOfMemoryError):
        program()
    assert names(tmp_path) == {"snap.pickle.gz"}
    with mr.open(tmp_path / "snap.pickle.gz") as snap:
        assert snap.trace_events(0) == 1


@pytest.mark.parametrize("large", [(True,) * 5, (True, True, True, False, True)])
def test_last_failure_replaces_only_the_one_before(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: tuple[bool, ...]
) -> None:
    with mr.record(tmp_path / "snap.pickle", quiet=True):
        for one in large:
            monkeypatch.setattr("memreplay.recording.writing.LARGE_BYTES", 10 if one else 1 << 30)
            torch.memory.take()
            with pytest.raises(OutOfMemoryError):
                torch.run_out()
    found = {}
    for path in tmp_path.iterdir():
        with mr.open(path) as snap:
            found[path.name] = snap.trace_events(0)
    assert found == {
        "snap.pickle": 5,
        "snap.oom.pickle.gz": 1,
        "snap.oom-1.pickle.gz": 2,
        "snap.oom-2.pickle.gz": 5,
    }


def test_recording_writes_to_a_url(torch: Torch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    store = MemoryFileSystem()

    def program() -> None:
        with mr.record("memory://oom/snap.pickle", quiet=True) as recorder:
            torch.memory.take()
            recorder.dump("memory://oom/now.pickle")
            torch.run_out()

    with pytest.raises(OutOfMemoryError):
        program()
    assert store.find("/oom") == ["/oom/now.pickle", "/oom/snap.oom.pickle"]
