"""diff and gate compare a recording that has C++ frames with one that doesn't."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder

MIB = 1 << 20
MODEL = "/home/ana/gpt/model.py"
INNER = [
    ("CUDACachingAllocator::malloc", "libc10_cuda.so", 0),
    ("at::_ops::linear::call(at::Tensor const&)", "??", 0),
]
OUTER = [("PyObject_Call", "??", 0), ("_PyEval_EvalFrameDefault", "/usr/bin/python3.11", 0)]
BACKWARD = [
    ("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)", "??", 0),
    ("torch::autograd::Engine::thread_main", "??", 0),
]


class Files(NamedTuple):
    python: str
    full: str
    grown: str
    bare: str


def step(*, native: bool, activations: int = 4 * MIB, stacks: bool = True) -> bytes:
    """Return one step of a model that allocates on two lines, and a backward pass with only C++
    frames.
    """
    builder = SnapshotBuilder(stacks=stacks)
    for i, (line, n_bytes) in enumerate(((7, activations), (9, 2 * MIB))):
        python = [("forward", MODEL, line), ("main", "/home/ana/gpt/train.py", 3)]
        frames = [*INNER, *python, *OUTER] if native else python
        builder.alloc((i + 1) << 30, n_bytes, frames=frames)
    builder.alloc(9 << 30, 3 * MIB, frames=[*INNER, *BACKWARD] if native else [])
    return build.dump(builder.finish_segments().build())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = {
        "python": step(native=False),
        "full": step(native=True),
        "grown": step(native=True, activations=5 * MIB),
        "bare": step(native=False, stacks=False),
    }
    for name, data in made.items():
        (tmp_path / f"{name}.pkl").write_bytes(data)
    return Files(*(str(tmp_path / f"{name}.pkl") for name in made))


def test_same_program_has_no_changes(runner: CliRunner, files: Files) -> None:
    for by in ("stack", "line", "innermost", "category"):
        for pair in ((files.python, files.full), (files.full, files.python)):
            result = runner.invoke(app, ["diff", *pair, "--by", by])
            assert (result.exit_code, result.stderr) == (0, "")
            assert "no group changed" in result.stdout
            said = " ".join(result.stdout.split())
            assert f"{files.python} was recorded without C++ frames" in said


def test_change_is_attributed_to_its_line(runner: CliRunner, files: Files) -> None:
    result = runner.invoke(app, ["diff", files.python, files.grown, "--json"])
    report = json.loads(result.stdout)
    assert report["stack_frames"] == "python"
    (device,) = report["devices"]
    rows = [
        (row["status"], row["change_bytes"], row["frames"][0]["line"]) for row in device["rows"]
    ]
    assert rows == [("grew", MIB, 7)]


def test_all_frames_are_kept_if_both_sides_have_them(runner: CliRunner, files: Files) -> None:
    result = runner.invoke(app, ["diff", files.full, files.grown, "--unchanged"])
    assert "AddmmBackward0" in result.stdout
    assert "C++ frames" not in result.stdout
    result = runner.invoke(app, ["diff", files.full, files.grown, "--json"])
    assert json.loads(result.stdout)["stack_frames"] == "all"


def test_only_totals_are_compared_if_one_side_lacks_stacks(runner: CliRunner, files: Files) -> None:
    result = runner.invoke(app, ["diff", files.bare, files.grown])
    assert "+1.0 MiB  9.0 MiB  10.0 MiB      0  grew  (recorded without a stack)" in result.stdout
    assert "was recorded without stacks, so only totals can be compared" in " ".join(
        result.stdout.split()
    )


@pytest.mark.parametrize("baseline", [False, True])
def test_gate_blames_the_line_that_grew(
    runner: CliRunner, files: Files, tmp_path: Path, baseline: bool
) -> None:
    base = files.python
    if baseline:
        base = str(tmp_path / "base.json")
        assert runner.invoke(app, ["gate", files.python, "--save-base", base]).exit_code == 0
    result = runner.invoke(app, ["gate", files.grown, "--base", base, "--max-growth", "2%"])
    assert result.exit_code == 1
    assert "+1.0 MiB in forward model.py:7" in result.stdout.splitlines()[0]
    assert "AddmmBackward0" not in result.stdout
    assert "was recorded without C++ frames" in " ".join(result.stdout.split())


def test_baseline_with_all_frames_matches_a_recording_without(
    runner: CliRunner, files: Files, tmp_path: Path
) -> None:
    base = str(tmp_path / "base.json")
    assert runner.invoke(app, ["gate", files.full, "--save-base", base]).exit_code == 0
    result = runner.invoke(app, ["diff", base, files.python])
    assert "no group changed" in result.stdout
    assert f"{files.python} was recorded without C++ frames" in " ".join(result.stdout.split())
