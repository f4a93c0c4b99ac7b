"""Tests of recording/session.py, with a stand-in for torch: the times and places at which files are
written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memreplay as mr
from memreplay.errors import MemreplayError, UsageError
from memreplay.recording import session as module
from memreplay.recording.facts import SYMBOLIZE
from memreplay.recording.running_out import ran_out
from memreplay.render.units import size
from tests.unit.recording.stand_in import OutOfMemoryError, Torch, make_torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Torch]:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(module, "_observing", [])
    caplog.set_level(logging.INFO, "memreplay")
    yield made
    assert not module._active


def events(path: Path) -> int:
    """Return the number of events in a file."""
    with mr.open(path) as snap:
        return snap.trace_events(0)


def test_programs_may_pickle_what_ends_a_process(torch: Torch, tmp_path: Path) -> None:
    with mr.record(tmp_path / "snap.pickle"):
        assert pickle.loads(pickle.dumps(os._exit)) is os._exit
    assert pickle.loads(pickle.dumps(os._exit)) is os._exit


def test_each_failed_request_is_sampled(torch: Torch, tmp_path: Path) -> None:
    """A snapshot replaces the third one's again and again, but all are in its samples."""
    taken = []
    with mr.record(tmp_path / "snap.pickle") as recorder:
        samples = recorder._session.samples
        samples.take = lambda: taken.append(1)  # type: ignore[method-assign]
        for _ in range(5):
            with pytest.raises(OutOfMemoryError):
                torch.run_out()
        assert len(taken) == 5
        assert len(list(tmp_path.glob("*.oom*"))) == 3


def test_snapshots_have_the_process_memory(torch: Torch, tmp_path: Path) -> None:
    with mr.record(tmp_path / "snap.pickle") as recorder:
        thread = recorder._session.samples.thread
        assert thread is not None
        assert thread.is_alive()
        now = recorder.snapshot()["memreplay"]["host_memory"]
    own = pickle.loads((tmp_path / "snap.pickle").read_bytes())["memreplay"]
    assert len(own["host_memory"]["times_us"]) == len(now["times_us"]) + 1 == 3
    assert "card_memory" not in own  # this torch doesn't tell
    assert "failures" not in own
    assert not thread.is_alive()


def test_snapshot_is_written_at_the_end(
    torch: Torch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "snap.pickle"
    with mr.record(path, skip_actions=["oom"]) as recorder:
        torch.memory.take()
        assert not path.exists()
    begun, ended = torch.memory.asked
    assert begun == {
        "enabled": "all",
        "context": "all",
        "stacks": "python",
        "max_entries": sys.maxsize,
        "clear_history": True,
        "skip_actions": ["oom"],
    }
    assert ended == {"enabled": None}
    assert events(path) == 1
    own = pickle.loads(path.read_bytes())["memreplay"]
    assert (own["recorder"], own["torch"], own["rank"]) == ("record", "9.9", None)
    assert own["cards"] == [{"name": "A card", "total_bytes": 1 << 30}]
    assert "allocations" not in own
    said = caplog.messages
    # This version of torch is unknown: a message says so, and PyTorch's own recording is used.
    assert said[0].startswith("categories aren't recorded: ")
    assert said[1:] == [f"wrote {path} ({size(path.stat().st_size)})"]
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]
    assert recorder.path == str(path)


def test_cpp_frames_are_recorded_where_cheap(
    torch: Torch, tmp_path: Path, linux: pytest.MonkeyPatch
) -> None:
    torch.__file__ = make_torch(tmp_path / "torch") + "/__init__.py"
    with mr.record(tmp_path / "snap.pickle", quiet=True):
        assert os.environ[SYMBOLIZE] == "dladdr"
    assert torch.memory.asked[0]["stacks"] == "all"
    assert SYMBOLIZE not in os.environ
    # The user's option stays, and PyTorch symbolizes frames its own way.
    for stacks in ("all", "python"):
        with mr.record(tmp_path / f"{stacks}.pickle", stacks=stacks, quiet=True):
            assert SYMBOLIZE not in os.environ
        assert torch.memory.asked[-2]["stacks"] == stacks


def test_free_stacks_are_off_if_torch_would_lose_exceptions(
    torch: Torch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.__version__ = "2.11.0+cu130"
    with mr.record(tmp_path / "snap.pickle"):
        pass
    assert torch.memory.asked[0]["context"] == "alloc"
    assert "stacks of frees aren't recorded, because PyTorch 2.11.0+cu130" in caplog.text
    caplog.clear()
    with mr.record(tmp_path / "all.pickle", context="all"):
        pass
    assert torch.memory.asked[2]["context"] == "all"
    assert "stacks of frees aren't recorded, because PyTorch" not in caplog.text


def test_exception_is_reported_and_the_snapshot_written(torch: Torch, tmp_path: Path) -> None:
    def program() -> None:
        with mr.record(tmp_path / "snap.pickle", quiet=True):
            torch.memory.take()
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        program()
    assert events(tmp_path / "snap.pickle") == 1


def test_snapshot_is_taken_when_memory_runs_out(
    torch: Torch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "snap.pickle.gz"

    def program() -> None:
        with mr.record(path):
            torch.memory.take()
            try:
                torch.run_out()
            finally:
                torch.memory.take()  # events while the exception propagates

    with pytest.raises(OutOfMemoryError):
        program()
    assert events(path) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["snap.pickle.gz"]
    first, last = caplog.messages[-2:]
    other = tmp_path / "snap.oom.pickle.gz"
    assert re.fullmatch(
        rf"out of memory: wrote {other} \([\d.]+ K?i?B\); run: memreplay oom {other}", first
    )
    assert last == (
        f"out of memory: the snapshot of that moment, {other}, is now {path};"
        f" run: memreplay oom {path}"
    )


def test_dry_run_names_the_files_that_exist(torch: Torch, tmp_path: Path) -> None:
    def dump() -> None:
        """PyTorch's function in a dry run."""

    files: list[str] = []
    dump.memreplay_files = files  # type: ignore[attr-defined]
    torch.memory._dump_snapshot = dump  # type: ignore[attr-defined]

    def program(path: Path, failures: int) -> None:
        with mr.record(path, quiet=True):
            for _ in range(failures):
                with contextlib.suppress(OutOfMemoryError):
                    torch.run_out()
            torch.run_out()

    with pytest.raises(OutOfMemoryError):
        program(tmp_path / "snap.pickle", 0)
    assert files == [str(tmp_path / "snap.pickle")]
    files.clear()
    with pytest.raises(OutOfMemoryError):
        program(tmp_path / "many.pickle", 5)
    assert {Path(one).name for one in files} == {
        one.name for one in tmp_path.iterdir() if one.name.startswith("many")
    }
    assert files[-1] == str(tmp_path / "many.pickle")


def test_program_may_continue_after_out_of_memory(torch: Torch, tmp_path: Path) -> None:
    with mr.record(tmp_path / "snap.pickle", quiet=True):
        for _ in range(5):
            torch.memory.take()
            with pytest.raises(OutOfMemoryError):
                torch.run_out()
    found = {path.name: events(path) for path in tmp_path.iterdir()}
    assert found == {
        "snap.pickle": 5,
        "snap.oom.pickle": 1,
        "snap.oom-1.pickle": 2,
        "snap.oom-2.pickle": 5,  # the first failures and the last one
    }
    torch.memory.take()
    with pytest.raises(OutOfMemoryError):
        torch.run_out()  # PyTorch keeps the observer, but nothing is recorded any more
    assert len(list(tmp_path.iterdir())) == 4


def test_other_errors_are_not_noted_as_out_of_memory() -> None:
    first = OutOfMemoryError()
    second = ValueError()
    second.__cause__ = first
    first.__context__ = second
    assert ran_out(second)
    assert not ran_out(ValueError())
    assert not ran_out(None)


def test_default_file_is_replaced_with_a_note(
    torch: Torch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in ("", "; it replaces an earlier run's"):
        with mr.record() as recorder:
            torch.memory.take()
            recorder.dump("snapshot.pickle")
        said = [one for one in caplog.messages if one.startswith("wrote snapshot.pickle")]
        caplog.clear()
        first, second = said
        assert first.endswith(f"B){words}")
        assert second.endswith("B)")  # the session's own file doesn't count as an earlier file
    assert sorted(one.name for one in tmp_path.iterdir()) == ["snapshot.pickle"]


def test_files_are_not_overwritten(torch: Torch, tmp_path: Path) -> None:
    path = tmp_path / "snap.pickle"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already exists; pass overwrite=True"):
        mr.record(path)
    with mr.record(path, overwrite=True, quiet=True):
        torch.memory.take()
    assert events(path) == 1
    other = tmp_path / "other.pickle"
    with mr.record(other, quiet=True) as recorder:
        other.write_text("somebody else's")
    assert (other.read_text(), recorder.path) == (
        "somebody else's",
        str(tmp_path / "other-1.pickle"),
    )


def test_snapshots_are_written_every_n_steps_and_on_demand(torch: Torch, tmp_path: Path) -> None:
    with mr.record(tmp_path / "snap.pickle", every=2, quiet=True) as recorder:
        for _ in range(5):
            torch.memory.take()
            recorder.step()
        assert recorder.dump(tmp_path / "now.pickle") == str(tmp_path / "now.pickle")
    found = {path.name: events(path) for path in tmp_path.iterdir()}
    assert found == {
        "snap.pickle": 5,
        "now.pickle": 5,
        "snap.step-2.pickle": 2,
        "snap.step-4.pickle": 4,
    }
    for wrong in ({"every": 0}, {"every": "a"}, {"max_entries": -1}, {"stacks": "none"}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            mr.record(tmp_path / "x.pickle", **wrong)


def test_signal_writes_a_snapshot(torch: Torch, tmp_path: Path) -> None:
    with mr.record(tmp_path / "snap.pickle", quiet=True):
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert (tmp_path / "snap.signal.pickle").exists()
        assert (tmp_path / "snap.signal-1.pickle").exists()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    heard: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        with mr.record(tmp_path / "other.pickle", quiet=True):
            os.kill(os.getpid(), signal.SIGUSR1)  # the program's own handler is left alone
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert heard == [signal.SIGUSR1]
    assert not (tmp_path / "other.signal.pickle").exists()
    with mr.record(tmp_path / "third.pickle", quiet=True):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # set meanwhile
    assert signal.signal(signal.SIGUSR1, signal.SIG_DFL) is signal.SIG_IGN


def test_signals_during_a_write_are_ignored(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = pickle.dump

    def slow(*args: Any, **more: Any) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        dump(*args)

    with mr.record(tmp_path / "snap.pickle", quiet=True):
        monkeypatch.setattr("memreplay.recording.writing.pickle.dump", slow)
        os.kill(os.getpid(), signal.SIGUSR1)
        monkeypatch.undo()
        monkeypatch.setitem(sys.modules, "torch", torch)
    assert {path.name for path in tmp_path.iterdir()} == {"snap.pickle", "snap.signal.pickle"}


def test_forked_child_writes_nothing(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mr.record(tmp_path / "snap.pickle", quiet=True):
        monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not list(tmp_path.iterdir())


def test_invalid_file_names_are_refused(tmp_path: Path) -> None:
    for path in ("", f"{tmp_path}", f"{tmp_path}{os.sep}"):
        with pytest.raises(UsageError, match="isn't a file name"):
            mr.record(path, overwrite=True)


def test_too_long_names_are_refused(tmp_path: Path) -> None:
    """The names of related files must fit as well: temporary files, steps and out-of-memory
    snapshots.
    """
    with pytest.raises(UsageError, match=": the file name is too long"):
        mr.record(tmp_path / f"{'x' * 240}.pickle")
    mr.record(tmp_path / f"{'x' * 180}.pickle")
    with pytest.raises(
        UsageError, match=": snapshots are pickles; memreplay view turns one into a page"
    ):
        mr.record(tmp_path / "snap.html")


def test_messages_are_escaped(
    torch: Torch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mr.record(tmp_path / "a\x1b[31mb.pickle"):
        pass
    assert "a\\x1b[31mb.pickle" in caplog.text


def test_second_recording_at_a_time_is_refused(torch: Torch, tmp_path: Path) -> None:
    with (
        mr.record(tmp_path / "snap.pickle", quiet=True),
        pytest.raises(UsageError, match=r"already recording, to .*snap\.pickle"),
        mr.record(tmp_path / "other.pickle"),
    ):
        pass
    assert not (tmp_path / "other.pickle").exists()


@pytest.mark.parametrize("kinds, found", [(("xpu",), "xpu"), (("cuda", "xpu"), "cuda")])
def test_kind_of_device_is_detected(
    kinds: tuple[str, ...], found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(kinds))
    with mr.record(tmp_path / "snap.pickle", quiet=True) as recorder:
        assert recorder._session.kind == found


def test_unsupported_device_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(torch: Any, words: str, **options: Any) -> None:
        monkeypatch.setitem(sys.modules, "torch", torch)
        with (
            pytest.raises(UsageError, match=words),
            mr.record(tmp_path / "snap.pickle", strict=True, **options),
        ):
            pass
        assert not module._active
        assert not list(tmp_path.iterdir())

    refused(None, "torch is not installed")
    refused(Torch(()), "no CUDA or XPU device found; memreplay dryrun and memreplay.estimate")
    refused(
        Torch(), "model: must be a torch.nn.Module, or a list of them, not of type str", model="g"
    )
    refused(Torch(), "optimizer: .*, not of type int", optimizer=[3])
    refused(Torch(), "doesn't know depth; known options: clear_history, context", depth=3)
    refused(Torch(), "enabled can't be changed; everything is recorded", enabled="state")
    old = Torch()
    old.memory._record_memory_history = lambda enabled=True, record_context=True: None  # type: ignore[method-assign, assignment, misc]
    refused(old, "this torch is too old to record; upgrade to 2.1 or later")


def test_full_disk_is_an_error_or_a_warning(
    torch: Torch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memreplay.recording.writing.pickle.dump", full)
    path = tmp_path / "snap.pickle"
    with (
        pytest.raises(MemreplayError, match="No space left on device; the snapshot is lost"),
        mr.record(path),
    ):
        pass
    # The program's own error takes precedence.
    with pytest.raises(KeyError), mr.record(path):
        raise KeyError
    assert "No space left" in caplog.text
    caplog.clear()
    # If the program didn't request the snapshot and writing it fails, the program continues.
    recorder = mr.record(path, every=1)
    recorder.__enter__()
    os.kill(os.getpid(), signal.SIGUSR1)
    recorder.step()
    recorder.__exit__(KeyError, KeyError(), None)
    assert caplog.text.count("No space left") == 3
    assert not list(tmp_path.iterdir())


def test_model_or_list_of_models_becomes_a_list() -> None:
    class Model:
        def __call__(self) -> None: ...

        def __iter__(self) -> Iterator[int]:
            return iter((1, 2))

    model = Model()
    assert module.as_list(None) == []
    assert module.as_list(model) == [model]  # like a Sequential
    assert module.as_list([model, 1]) == [model, 1]


def test_continuous_recording_writes_windows(torch: Torch, tmp_path: Path) -> None:
    path = tmp_path / "snap.pickle"
    path.touch()  # isn't written, so it may exist
    for number in (1, 2, 3):
        with mr.record(path, continuous={"keep": 2}, max_entries=100) as recorder:
            torch.memory.take()
        assert recorder.path == str(tmp_path / f"snap.window-00000{number}.pickle")
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "snap.pickle",
        "snap.window-000002.pickle",
        "snap.window-000003.pickle",
    ]
    asked = torch.memory.asked[0]
    assert (asked["max_entries"], asked["context"]) == (100, "alloc")


@pytest.mark.parametrize("destroyed", [True, False])
def test_continuous_recording_learns_its_rank_later(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, destroyed: bool
) -> None:
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 3,
        get_world_size=lambda: 8,
    )
    with mr.record(tmp_path / "snap.pickle", continuous=True) as recorder:
        torch.memory.take()
        monkeypatch.setattr(torch, "distributed", distributed, raising=False)
        if destroyed:
            recorder.step()
            monkeypatch.delattr(torch, "distributed")
    assert [one.name for one in tmp_path.iterdir()] == ["snap.rank3.window-000001.pickle"]


def test_continuous_recording_has_a_window_for_running_out(torch: Torch, tmp_path: Path) -> None:
    recorder = mr.record(tmp_path / "snap.pickle", continuous=True)
    torch.memory.take()
    with pytest.raises(OutOfMemoryError), recorder:
        torch.run_out()
    assert [one.name for one in tmp_path.iterdir()] == ["snap.window-000001-oom.pickle"]
    assert recorder.path.endswith("snap.window-000001-oom.pickle")


def test_wrong_options_of_a_continuous_recording_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="continuous: unknown often"):
        mr.record(tmp_path / "snap.pickle", continuous={"often": 1})


def test_allocator_that_cannot_be_recorded_is_a_warning(
    torch: Torch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object, stacks: str = "", **__: object) -> None:
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory.\nFile an issue.")

    monkeypatch.setattr(torch.memory, "_record_memory_history", refuse)
    before = sys.excepthook, signal.getsignal(signal.SIGTERM)
    with mr.record(tmp_path / "snap.pickle") as recorder:
        assert not recorder.recording
    assert "nothing is recorded: PyTorch can't record: RuntimeError: cudaMallocAsync" in caplog.text
    assert (sys.excepthook, signal.getsignal(signal.SIGTERM)) == before
    with pytest.raises(UsageError), mr.record(tmp_path / "snap.pickle", strict=True):
        pass


def test_observer_that_cannot_be_attached_does_not_end_the_program(
    torch: Torch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("not supported")

    torch._C._cuda_attach_out_of_memory_observer = refuse
    with mr.record(tmp_path / "snap.pickle"):
        torch.memory.take()
    assert events(tmp_path / "snap.pickle") == 1
    assert "watching for failed requests failed (RuntimeError: not supported)" in caplog.text


@pytest.mark.parametrize("knows", [False, True])
def test_pinned_memory_is_recorded_if_torch_can(
    torch: Torch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    knows: bool,
) -> None:
    if knows:
        record = torch.memory._record_memory_history
        asked = []

        def record_more(
            enabled: str | None = "all",
            stacks: str = "all",
            record_pinned_host_memory: bool = False,
            global_record_annotations: bool = False,
        ) -> None:
            asked.append((enabled, record_pinned_host_memory, global_record_annotations))
            record(enabled, stacks=stacks)

        monkeypatch.setattr(torch.memory, "_record_memory_history", record_more)
    with module.Session(module.Wanted(tmp_path / "snap.pickle", pinned=True)):
        pass
    assert ("can't record pinned memory of the host" in caplog.text) is not knows
    if knows:
        assert asked == [("all", True, True), (None, False, False)]
