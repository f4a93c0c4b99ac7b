"""Tests of notebook/output.py: the value of a line, and its display in a cell."""

from __future__ import annotations

import pytest

from memreplay.errors import UsageError
from memreplay.notebook.output import CommandOutput
from memreplay.notebook.streams import MORE_JSON
from memreplay.snapshot.page_view import PageView

STYLED = "\x1b[1mpeak\x1b[0m 5 GiB\n"


def test_output_has_its_exit_code_and_both_streams() -> None:
    ran = CommandOutput(("peak", "my snap.pkl"), 1, STYLED, "a note\n")
    assert (ran.exit_code, ran.stderr) == (1, "a note\n")
    assert ran.stdout == str(ran) == "peak 5 GiB\n"
    assert repr(ran) == "<memreplay peak 'my snap.pkl': exit code 1>"


def test_repr_is_one_short_line() -> None:
    found = repr(CommandOutput(("peak", "a\n\x1b[31m" + "x" * 1000), 0, "", ""))
    assert len(found) < 110
    assert found.isprintable()


def test_json_is_parsed_or_requested() -> None:
    assert CommandOutput(("peak", "f", "--json"), 0, '{"a": [1]}\n', "").json() == {"a": [1]}
    with pytest.raises(UsageError, match="wrote no JSON; give --json"):
        CommandOutput(("peak", "f"), 0, STYLED, "").json()


def test_output_is_shown_only_once_in_its_cell(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(("peak",), 0, STYLED, "a note\n", None, lambda: True)._ipython_display_()
    assert capsys.readouterr() == ("", "")
    CommandOutput(("peak",), 0, STYLED, "", None, lambda: True, inline=False)._ipython_display_()
    assert capsys.readouterr() == ("<memreplay peak: exit code 0>\n", "")
    CommandOutput(("peak",), 0, STYLED, "a note\n", None, lambda: False)._ipython_display_()
    assert capsys.readouterr() == (STYLED, "a note\n")


def test_long_json_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    CommandOutput(("peak",), 0, "{" + " " * 10_000 + "}", "")._ipython_display_()
    assert len(capsys.readouterr().out) < 1_000 + len(MORE_JSON)


def test_page_is_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[object] = []
    monkeypatch.setattr(display, "display", shown.append)
    page = PageView(b"<!doctype html>", "a page")
    CommandOutput(("view", "f"), 0, "", "", page)._ipython_display_()
    assert shown == [page]
