"""Tests of cli/output.py."""

from __future__ import annotations

import io
import sys

import pytest

from memreplay.cli import output
from memreplay.reports.document import Heading, Note, Place

DOCUMENT = (Heading((Place("f" * 30, "/x" * 50 + ".py", 1),)), Note("word " * 40))


class Stream(io.StringIO):
    """A stdout that is a terminal or is not."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    "terminal, environment, colour",
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": ""}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colour(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], colour: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.wants_colour() is colour
    assert ("\x1b[" in output.render_document(DOCUMENT)) is colour


@pytest.mark.parametrize("columns, widest", [("60", 60), ("160", 160), ("10", 40), ("x", 100)])
def test_width(monkeypatch: pytest.MonkeyPatch, columns: str, widest: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "__stdout__", None)
    lines = output.render_document(DOCUMENT).splitlines()
    assert widest - 12 <= max(map(len, lines)) <= widest


def test_what_the_encoding_lacks_becomes_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.write("…/x.py \udc80")
    assert raw.getvalue() == b"?/x.py ?\n"


def test_colours_survive_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=False)
    monkeypatch.setattr(sys, "stdout", stream)
    output.write("\x1b[1mx\x1b[0m")
    assert stream.getvalue() == "\x1b[1mx\x1b[0m\n"
