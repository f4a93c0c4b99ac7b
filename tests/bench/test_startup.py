"""Startup imports no more than recorded, and counts are compared only under the recorded
conditions.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

import startup
from instructions import NotMeasuredError

BEFORE: dict[str, object] = {
    "own modules": {"peak": 10},
    "modules": {"peak": 20},
    "instructions": {"peak": 1000},
}


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    with startup.snapshot() as path:
        yield path


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(startup.FIGURE.read_text(encoding="utf-8"))
    return found


def own(names: set[str]) -> int:
    return sum(name.split(".")[0] == "memreplay" for name in names)


@pytest.mark.parametrize("command", startup.COUNTED)
def test_startup_imports_no_more_modules_than_recorded(
    command: str, file: Path, recorded: dict[str, dict[str, int]]
) -> None:
    names = startup.modules(command, file)
    assert own(names) <= recorded["own modules"][command], sorted(names)
    here = ".".join(platform.python_version_tuple()[:2])
    if here == str(recorded["python"]):
        assert len(names) <= recorded["modules"][command], sorted(names)


def test_version_does_not_import_click(file: Path) -> None:
    assert not {"click", "msgspec", "typing"} & startup.modules("--version", file)


@pytest.mark.parametrize("options", [(), ("--format", "json")], ids=["text", "json"])
def test_peak_imports_neither_numpy_nor_rich(options: tuple[str, ...], file: Path) -> None:
    heavy = {"numpy", "rich", "dataclasses", "typing_extensions", "tomllib", "pyarrow"}
    assert not heavy & startup.modules("peak", file, *options)


def test_every_command_is_timed(file: Path) -> None:
    found = startup.times(file, 1)
    assert list(found) == ["python", "click", "--version", "peak", "report", "summary", "leaks"]
    assert all(len(every) == 1 and every[0] > 0 for every in found.values())


def test_failing_command_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(NotMeasuredError, match="ended with 3"):
        startup.times(tmp_path / "none.pkl", 1)


@pytest.mark.parametrize(
    "kind, number, differing, code",
    [
        ("own modules", 10, [], 0),
        ("own modules", 9, [], 0),
        ("own modules", 11, [], 1),
        ("own modules", 11, ["python"], 1),
        ("modules", 21, [], 1),
        ("modules", 21, ["compiler"], 1),
        ("modules", 21, ["python"], 0),
        ("instructions", 1029, [], 0),
        ("instructions", 1031, [], 1),
        ("instructions", 1031, ["compiler"], 0),
        ("instructions", 1151, ["compiler"], 1),
    ],
)
def test_changed_figures_set_the_exit_code(
    kind: str, number: int, differing: list[str], code: int
) -> None:
    assert startup.judge({kind: {"peak": number}}, BEFORE, differing) == code


def test_damaged_figures_file_is_a_one_line_error() -> None:
    with pytest.raises(NotMeasuredError, match="damaged"):
        startup.judge({"modules": {"peak": 1}}, {}, [])


def test_modules_are_checked_without_valgrind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert startup.main(["--update"]) == 2
    assert startup.main(["--check"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == 2 * [
        "valgrind is not installed, so instructions were not counted"
    ]
    assert "peak: " in said.out
    monkeypatch.setattr(startup, "FIGURE", tmp_path / "none.json")
    assert startup.main(["--check"]) == 2
    assert "--update" in capsys.readouterr().err


def test_update_writes_the_figures_that_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(startup, "FIGURE", tmp_path / "figure.json")
    monkeypatch.setattr(startup, "instructions", lambda _file: dict.fromkeys(startup.COUNTED, 1000))
    assert startup.main(["--update"]) == 0
    assert startup.main(["--check"]) == 0
    monkeypatch.setattr(startup, "instructions", lambda _file: dict.fromkeys(startup.COUNTED, 1100))
    assert startup.main(["--check"]) == 1
    assert "too many" in capsys.readouterr().err
