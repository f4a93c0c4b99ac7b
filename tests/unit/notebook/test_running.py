"""Tests of notebook/running.py: command lines in this process, and their display in a cell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memreplay.errors import UsageError
from memreplay.notebook import running
from memreplay.notebook.running import run, split
from memreplay.snapshot.page_view import PageView
from tests.conftest import ROOT

STEP = str(ROOT / "examples" / "transformer_step.pkl.gz")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    monkeypatch.setattr(pytest.importorskip("IPython.display"), "display", found.append)
    return found


def test_line_is_split_like_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert split("peak 'my snap.pkl' --top 5") == ("peak", "my snap.pkl", "--top", "5")
    assert split("peak ~/a.pkl x~") == ("peak", "/home/someone/a.pkl", "x~")
    assert split("") == ()
    with pytest.raises(UsageError, match="no closing quotation: peak 'x"):
        split("peak 'x")


def test_output_is_shown_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(("peak", STEP, "--top", "1"), inline=True)
    seen = capsys.readouterr()
    assert seen.out == ran.styled
    assert "\x1b[1mdevice 0: peak 5.2 GiB" in ran.styled
    assert "device 0: peak 5.2 GiB" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert (ran.exit_code, seen.err) == (0, "")


def test_width_and_colour_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def longest() -> int:
        ran = run(("peak", STEP), inline=True)
        return max(map(len, ran.stdout.splitlines()[3:]))

    assert 80 < longest() <= running.COLUMNS
    monkeypatch.setenv("COLUMNS", "60")
    assert longest() <= 60
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(("peak", STEP), inline=True).styled
    monkeypatch.delenv("NO_COLOR")
    # Without a notebook, stdout decides, which is captured here.
    assert "\x1b" not in run(("peak", STEP), inline=False).styled


@pytest.mark.parametrize(
    "words, exit_code, said",
    [
        (("peak", "none.pkl"), 3, "memreplay: error: none.pkl: no such file"),
        (("peek",), 2, "did you mean peak?"),
        (("peak", STEP, "--device", "7"), 2, "no device 7"),
        (("steps", STEP, "--step", "period=9999999"), 2, "no steps"),
        (("gate", STEP, "--max-peak", "1MiB"), 1, ""),
        (("export", STEP, "--format", "pprof", "-o", "-"), 2, "isn't text"),
        (
            ("record", "--", "python"),
            2,
            "record runs a separate program; use %%memreplay to record a cell",
        ),
        (("dryrun", "--", "python"), 2, "!memreplay dryrun"),
        (("explore", STEP), 2, "%memreplay view"),
        (("mcp",), 2, "memreplay help mcp"),
    ],
)
def test_errors_are_printed(
    words: tuple[str, ...], exit_code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(words, inline=True)
    assert ran.exit_code == exit_code
    assert said in ran.stderr
    assert ran.stderr.splitlines()[-1] == f"memreplay: exit code {exit_code}"
    assert capsys.readouterr().err == ran.stderr
    assert "Traceback" not in ran.stderr


def test_help_is_printed_for_commands_unavailable_in_notebooks() -> None:
    ran = run(("record", "--help"), inline=True)
    assert ran.exit_code == 0
    assert "Usage: memreplay record" in ran.stdout


def test_json_is_kept_completely(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(("peak", STEP, "--json"), inline=True)
    assert ran.json()["devices"][0]["peak_bytes"] == 5586941980
    assert len(capsys.readouterr().out) < len(ran.stdout) // 10


def test_page_is_shown(
    shown: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(("view", STEP), inline=True, height=300)
    (page,) = shown
    assert page is ran.page
    assert isinstance(page, PageView)
    assert (page.title, page.height, ran.exit_code) == ("transformer_step.pkl.gz", 300, 0)
    assert page.html.startswith(b"<!doctype html>")
    assert list(tmp_path.iterdir()) == []


def test_page_written_to_a_file_is_not_displayed(
    shown: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(("view", STEP, "-o", "page.html"), inline=True)
    assert (ran.page, shown) == (None, [])
    assert "wrote page.html" in ran.stderr
    shutil.copy(STEP, "snap.pkl.gz")
    # In a terminal, the command does the same as in a shell.
    assert run(("view", "snap.pkl.gz"), inline=False).page is None
    assert (tmp_path / "snap.html").exists()


def test_page_that_cannot_be_written_is_an_error(shown: list[object]) -> None:
    ran = run(("view", "none.pkl"), inline=True)
    assert (ran.exit_code, ran.page, shown) == (3, None, [])
    assert "no such file" in ran.stderr
    assert "Usage: memreplay view" in run(("view", "--help"), inline=True).stdout
    assert run(("view",), inline=True).exit_code == 2


def test_interrupt_gives_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memreplay.commands.app.app.main", interrupted)
    assert run(("peak", STEP), inline=True).exit_code == 130
