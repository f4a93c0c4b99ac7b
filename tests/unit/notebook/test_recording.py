"""Tests of notebook/recording.py, with a stand-in for torch: a cell is recorded and reported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.recording import session as module
from tests.unit.notebook.shells import Shell
from tests.unit.recording.stand_in import Torch


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(module, "_observing", [])
    yield made
    assert not module._active


@pytest.fixture
def notebook(torch: Torch) -> Shell:
    found = Shell(notebook=True)
    found("import torch")
    return found


def test_cell_is_recorded_and_reported(notebook: Shell) -> None:
    cell = notebook("%%memreplay\ntorch.memory.take()\nmade = 6\nmade * 7")
    assert cell.error is None
    assert ": 42\n" in cell.out
    assert "device 0: peak" in cell.out
    assert "what to do next" in cell.out
    assert notebook.ipython.user_ns["made"] == 6
    # The follow-up commands in the report run.
    path = next(word for word in cell.out.split() if word.endswith("cell.pickle"))
    assert notebook(f"%memreplay summary {path}").err == ""
    assert notebook("%%memreplay\ntorch.memory.take()").error is None


def test_options_choose_the_command_and_the_file(notebook: Shell, tmp_path: Path) -> None:
    path = tmp_path / "my step.pickle"
    code = f"%%memreplay -o '{path}' --show 'summary --json'\ntorch.memory.take()"
    cell = notebook(code)
    assert '"schema": "memreplay.summary/1"' in cell.out
    assert mr.open(path).trace_events(0) == 1
    again = notebook(code)
    assert "already exists" in again.err
    assert len(again.err.splitlines()) == 1
    assert notebook(code.replace("memreplay -o", "memreplay --force -o", 1)).error is None


def test_source_lines_are_kept_on_request(notebook: Shell, tmp_path: Path) -> None:
    for options in ("", "--source"):
        path = tmp_path / f"{options}.pickle"
        # The stand-in records no stacks itself.
        cell = notebook(
            f"%%memreplay {options} -o '{path}'\n"
            "import sys; frames = [('<module>', sys._getframe().f_code.co_filename, 2)]\n"
            "torch.memory.made.alloc(1 << 20, 512, frames=frames)"
        )
        assert cell.error is None
        (frame,) = mr.open(path).stack(1)
        line = "torch.memory.made.alloc(1 << 20, 512, frames=frames)"
        assert (frame.source == line) is bool(options)
        assert (f"> {line}" in cell.out) is bool(options)


def test_cell_error_follows_the_report(notebook: Shell) -> None:
    cell = notebook("%%memreplay\ntorch.memory.take()\n1 // 0")
    assert isinstance(cell.error, ZeroDivisionError)
    assert "device 0: peak" in cell.out
    assert "ZeroDivisionError" in cell.out + cell.err


def test_magics_inside_the_cell_run(notebook: Shell) -> None:
    cell = notebook("%%memreplay\n%memreplay --version\nx = !echo hello\ntorch.memory.take()")
    assert cell.error is None
    assert f"memreplay {mr.__version__}" in cell.out
    assert notebook.ipython.user_ns["x"] == ["hello"]


def test_model_option_names_a_module_of_the_notebook(notebook: Shell) -> None:
    cell = notebook("%%memreplay --model net\n1")
    assert cell.err == "UsageError: net: the notebook has no variable with this name\n"
    cell = notebook("net = 1")
    cell = notebook("%%memreplay --model net\n1")
    assert "model: must be a torch.nn.Module" in cell.err
