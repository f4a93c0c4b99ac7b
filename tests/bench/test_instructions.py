"""Instruction counts are compared only under the recorded conditions, and missing tools are
reported.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import instructions

HERE = {"compiler": "gcc 12", "machine": "x86_64", "python": "3.11", "snapshot": "0123"}
FIGURE: dict[str, object] = {"instructions": 1000, "conditions": HERE}


@pytest.mark.parametrize("measured, code", [(1000, 0), (1029, 0), (1031, 1), (900, 0)], ids=str)
def test_three_percent_more_instructions_pass_on_the_same_machine(measured: int, code: int) -> None:
    assert instructions.judge("plain", measured, HERE, FIGURE) == code


@pytest.mark.parametrize("measured, code", [(1149, 0), (1151, 1)], ids=str)
def test_fifteen_percent_more_instructions_pass_on_another_machine(
    measured: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert instructions.judge("plain", measured, HERE | {"compiler": "gcc 14"}, FIGURE) == code
    assert "compiler gcc 12 -> gcc 14" in capsys.readouterr().out


def test_missing_valgrind_is_a_one_line_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(instructions, "generated", lambda _megabytes, *_options: tmp_path)
    monkeypatch.setattr(instructions, "conditions", lambda _file: HERE)
    monkeypatch.setattr(instructions, "warm_up", lambda _file: None)
    assert instructions.main(["--update"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "valgrind is not installed, so instructions were not counted"
    ]


def test_missing_figures_file_is_a_one_line_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(instructions, "FIGURE", tmp_path / "none.json")
    assert instructions.main([]) == 2
    assert "--update" in capsys.readouterr().err


def test_update_writes_the_figures_that_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    snapshot = tmp_path / "snap.pkl"
    snapshot.write_bytes(b"x")
    monkeypatch.setattr(instructions, "FIGURE", tmp_path / "figure.json")
    monkeypatch.setattr(instructions, "generated", lambda _megabytes, *_options: snapshot)
    monkeypatch.setattr(instructions, "conditions", lambda _file: HERE)
    monkeypatch.setattr(instructions, "measure", lambda _file: 1000)
    assert instructions.main(["--update"]) == 0
    assert json.loads((tmp_path / "figure.json").read_text()) == dict.fromkeys(
        instructions.SNAPSHOTS, FIGURE
    )
    monkeypatch.setattr(instructions, "measure", lambda _file: 1100)
    assert instructions.main([]) == 1
    assert "+10.00%" in capsys.readouterr().out


def test_committed_figures_can_be_read() -> None:
    figures = json.loads(instructions.FIGURE.read_text(encoding="utf-8"))
    assert list(figures) == list(instructions.SNAPSHOTS)
    for figure in figures.values():
        assert figure["instructions"] > 0
        assert sorted(figure["conditions"]) == ["compiler", "machine", "python", "snapshot"]


def test_snapshot_missing_from_the_figures_is_a_one_line_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "figure.json").write_text(json.dumps({"plain": FIGURE}))
    monkeypatch.setattr(instructions, "FIGURE", tmp_path / "figure.json")
    monkeypatch.setattr(instructions, "generated", lambda _megabytes, *_options: tmp_path)
    monkeypatch.setattr(instructions, "conditions", lambda _file: HERE)
    monkeypatch.setattr(instructions, "measure", lambda _file: 1000)
    assert instructions.main([]) == 2
    assert "--update" in capsys.readouterr().err
