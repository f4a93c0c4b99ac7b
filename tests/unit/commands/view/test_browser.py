"""Tests of commands/view/browser.py: no window is opened by them."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import pytest

from memreplay.commands.view.browser import open_page


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was asked to open."""
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
def test_it_is_opened(
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


def test_no_browser(
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked.append("the only one")
    monkeypatch.setenv("DISPLAY", ":0")
    open_page(str(tmp_path / "x.html"))
    whole = tmp_path / "x.html"
    said = f"memreplay: no browser was found to open it; open {whole} in one\n"
    assert capsys.readouterr() == ("", said)


def test_no_display(
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
        "memreplay: there is no display here to open it on; on your own machine:"
        f" scp 'node7:{tmp_path}/a b.html' .\n"
    )


def test_other_systems_have_a_display(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    open_page("/x.html")
    assert asked == ["file:///x.html"]
