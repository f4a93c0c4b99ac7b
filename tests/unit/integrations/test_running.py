"""Tests of integrations/running.py, with a stand-in for torch: which steps and ranks are recorded,
where to, and that nothing is raised in the training.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memreplay.errors import UsageError
from memreplay.integrations import Recording
from memreplay.integrations.running import marked
from tests.unit.integrations.conftest import Program
from tests.unit.recording.stand_in import OutOfMemoryError


def fail(program: Program) -> None:
    program.step()
    program.torch.run_out()


def test_importing_the_package_imports_no_framework() -> None:
    code = (
        "import sys, memreplay.integrations, memreplay.integrations.process,"
        " memreplay.integrations.vllm, memreplay.integrations.torchtune\n"
        "print({'torch', 'transformers', 'lightning', 'accelerate', 'vllm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_context_records_all_steps(program: Program) -> None:
    with Recording() as recording:
        for _ in range(3):
            program.step()
        assert recording.active
    assert program.files == {"memory.rank0.pickle": 3}
    assert recording.path == "memory.rank0.pickle"
    assert not recording.active


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize(
    "steps, expected", [((1, 2), 2), ((2, 4), 3), ((4, 9), 2), ((7, 7), None), ((3, 3), 1)]
)
def test_only_the_wanted_steps_are_recorded(
    program: Program, steps: tuple[int, int], expected: int | None, says: bool
) -> None:
    """Whether the program says where steps end, or only its optimizer steps."""
    recording = marked({"steps": steps}) if says else Recording(steps=steps)
    recording.begin()
    for _ in range(5):
        program.step()
        if says:
            recording.step()
    recording.end()
    found = {} if expected is None else {"memory.rank0.pickle": expected}
    assert program.files == found


def test_first_steps_of_a_resumed_run_count(program: Program) -> None:
    recording = marked({"steps": "102-103"})
    recording.begin(done=100)
    for _ in range(5):
        program.step()
        recording.step()
    recording.end()
    assert program.files == {"memory.rank0.pickle": 2}


def test_only_the_first_optimizer_counts(program: Program) -> None:
    with Recording(steps=2):
        for _ in range(3):
            program.step("generator")
            program.optimizers.call("discriminator", (), {})
    assert program.files == {"memory.rank0.pickle": 1}


def test_program_that_marks_its_steps_decides(program: Program) -> None:
    """After the first step, the optimizer steps twice per step."""
    with Recording(steps="2-3") as recording:
        for step in range(4):
            program.step()
            if step:
                program.step()
            recording.step()
    assert program.files == {"memory.rank0.pickle": 4}


def test_only_the_wanted_ranks_are_recorded(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        with Recording(ranks="1-2"):
            program.step()
    assert program.files == {"memory.rank1.pickle": 1, "memory.rank2.pickle": 1}


def test_files_are_kept(program: Program) -> None:
    for _ in range(2):
        recording = Recording(path="runs/a.pickle")
        for _ in range(2):
            with recording:
                program.step()
    assert set(program.files) == {
        "runs/a.pickle",
        "runs/a-1.pickle",
        "runs/a-2.pickle",
        "runs/a-3.pickle",
    }
    with Recording(path="runs/a.pickle", overwrite=True):
        program.step()
        program.step()
    assert program.files["runs/a.pickle"] == 2


def test_only_failures_are_saved(program: Program) -> None:
    with Recording(oom_only=True):
        program.step()
    assert program.files == {}
    with pytest.raises(OutOfMemoryError), Recording(oom_only=True):
        fail(program)
    assert program.files == {"memory.rank0.pickle": 1}


def test_framework_that_begins_again_after_a_failure_goes_on(program: Program) -> None:
    recording = marked({})
    for _ in range(2):
        recording.begin()
        program.step()
        with pytest.raises(OutOfMemoryError):
            program.torch.run_out()
    recording.begin()
    program.step()
    recording.step()
    recording.end()
    assert program.files == {
        "memory.rank0.oom.pickle": 1,
        "memory.rank0.oom-1.pickle": 2,
        "memory.rank0.pickle": 3,
    }


def test_snapshot_is_written_on_demand_and_every_n_steps(program: Program) -> None:
    recording = marked({"every": 2})
    assert recording.dump() is None
    recording.begin()
    for _ in range(3):
        program.step()
        recording.step()
    assert recording.dump() == "memory.rank0.now.pickle"
    assert recording.dump("own.pickle") == "own.pickle"
    recording.end()
    assert program.files == {
        "memory.rank0.step-2.pickle": 2,
        "memory.rank0.now.pickle": 3,
        "own.pickle": 3,
        "memory.rank0.pickle": 3,
    }


def test_path_that_cannot_be_written_to(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (program.folder / "file").touch()
    (program.folder / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(program.folder / "tmp"))
    with Recording(path="file/a.pickle"):
        program.step()
    assert program.files == {"tmp/a.pickle": 1}
    assert f"no such folder: file; snapshots are written to {program.folder}/tmp" in caplog.text


@pytest.mark.parametrize("method", ["begin", "step", "end", "dump"])
def test_nothing_is_raised_in_the_training(
    program: Program,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no")

    recording = marked({})
    if method != "begin":
        recording.begin()
    with monkeypatch.context() as patch:
        patch.setattr("memreplay.recording.session.Session.save", broken)
        patch.setattr("memreplay.recording.session.Session.step", broken)
        patch.setattr("memreplay.recording.session.recordable", broken)
        getattr(recording, method)()
    assert "recording memory: ZeroDivisionError: no" in caplog.text
    recording.end()


def test_recording_without_a_device_is_a_warning(
    program: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with Recording():
        pass
    assert "nothing is recorded: memreplay.record needs PyTorch" in caplog.text
    assert program.files == {}


def test_unknown_option_is_an_error_at_once(program: Program) -> None:
    with pytest.raises(UsageError, match="unknown option step"):
        Recording(step=3)


def test_module_that_runs_first_is_given_to_the_recorder(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    class Module:
        def named_modules(self) -> list[Any]:
            return []

        def __call__(self) -> None: ...

    module = Module()
    monkeypatch.setattr(
        "memreplay.recording.session.check_models", lambda models, _: given.extend(models)
    )
    with Recording(steps=2):
        program.step()
        program.forward(module)
    assert given == [module]


def test_default_file_is_in_the_frameworks_folder(program: Program, tmp_path: Path) -> None:
    recording = Recording()
    recording.begin(folder=str(tmp_path / "new" / "out"))
    program.step()
    recording.end()
    assert program.files == {"new/out/memory.rank0.pickle": 1}
