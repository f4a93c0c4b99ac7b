"""Tests of commands/view/browser.py, without opening windows."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import pytest

from memreplay.commands.view.browser import open_page


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the addresses that the browser is asked to open."""
    found: list[str] = []

    def browse(url: str) -> bool:
        found.append(url)
        return len(found) == 1

    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"])
def test_browser_is_opened(
    name: str,
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.chdir(tmp_path)
    open_page("a b#1.html")
    assert asked == [f"{tmp_path.as_uri()}/a%20b%231.html"]
    assert capsys.readouterr() == ("", "")


def test_note_says_that_no_browser_was_found(
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked.append("the only one")
    monkeypatch.setenv("DISPLAY", ":0")
    open_page(str(tmp_path / "x.html"))
    whole = tmp_path / "x.html"
    said = f"memreplay: no browser found; open {whole} yourself\n"
    assert capsys.readouterr() == ("", said)


def test_note_says_how_to_copy_the_page_without_a_display(
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("platform.node", lambda: "node7")
    monkeypatch.chdir(tmp_path)
    open_page("a b.html")
    assert asked == []
    assert capsys.readouterr().err == (
        "memreplay: no display to open it on; copy it to your machine:"
        f" scp 'node7:{tmp_path}/a b.html' .\n"
    )


def test_other_systems_have_a_display(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    open_page("/x.html")
    assert asked == ["file:///x.html"]
