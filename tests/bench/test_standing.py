"""bench/standing.py computes figures from runs that take turns, and shows which targets are met."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import compare
import standing
from compare import Run

QUICK = compare.Command("quick", (sys.executable, "-S", "-c", "pass", "FILE"))
HOG = compare.Command("hog", (sys.executable, "-S", "-c", "pass", "FILE"))
WRONG = compare.Command("wrong", (sys.executable, "-S", "-c", "raise SystemExit('no')", "FILE"))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "snap.pkl"
    path.write_bytes(bytes(1_000_000))
    monkeypatch.setattr(standing, "generated", lambda _size, *_options: path)
    return path


def figure(
    ours: compare.Command, other: compare.Command | None, direction: str, target: float | None
) -> standing.Figure:
    return standing.Figure("memory", 1, ours, other, standing.of_memory, "x", direction, target)


def test_values() -> None:
    ours = [Run(2.0, 1.0, 450_000), Run(1.0, 0.5, 400_000)]
    other = [Run(9.0, 0.25, 300_000), Run(8.0, 0.4, 200_000)]
    assert standing.times_slower(ours, other, 1) == 8
    assert standing.seconds(ours, [], 1) == 1
    assert standing.added_milliseconds(ours, other, 1) == 250
    assert standing.megabytes_per_second(ours, [], 3_000_000) == 6
    assert standing.of_the_file(ours, [], 1_000_000) == 0.45
    assert standing.of_memory(ours, other, 1) == 1.5


@pytest.mark.parametrize(
    "direction, target, value, met",
    [
        (">=", 40, 40, "yes"),
        (">=", 40, 39.9, "no"),
        ("<=", 0.45, 0.45, "yes"),
        ("<=", 0.45, 0.46, "no"),
        (">=", None, 0.9, "no"),
        (">=", None, 1.1, "yes"),
    ],
)
def test_targets(direction: str, target: float | None, value: float, met: str) -> None:
    assert standing.row("a", "f", value, ("x", direction, target)).endswith(f"| {met} |")


@pytest.mark.usefixtures("file")
def test_figures_of_one_file_take_turns_and_failing_commands_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(command: compare.Command, _file: Path) -> Run:
        ran.append(command.name)
        return Run(1.0, 1.0, {"quick": 100, "hog": 400}[command.name])

    monkeypatch.setattr(standing, "run", run)
    rows = standing.stand(
        [
            figure(QUICK, HOG, "<=", 0.5),
            figure(HOG, QUICK, "<=", 1.3),
            figure(QUICK, WRONG, "<=", 1),
        ],
        2,
        None,
    )
    assert ran == ["quick", "hog"] * 2
    assert [row.split("|")[-2].strip() for row in rows] == ["yes", "no"]
    assert "left out: wrong ended with 1" in capsys.readouterr().err


@pytest.mark.usefixtures("file")
def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(standing, "FIGURES", (figure(QUICK, HOG, "<=", 0.5),))
    monkeypatch.setattr(standing, "peers", list)
    assert standing.main(["--rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| figure | file | now | target | met |"
    assert lines[2].startswith("| memory | snap.pkl | ")
    assert standing.main(["--rounds", "1", "--sizes", "7"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_every_command_of_the_figures_exists() -> None:
    from memreplay.commands.shared.listed import COMMANDS

    for one in standing.FIGURES:
        assert one.ours.arguments[3] in COMMANDS
