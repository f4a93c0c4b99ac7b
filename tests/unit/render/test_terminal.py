"""Tests of render/terminal.py."""

from __future__ import annotations

import re

import pytest

from memreplay.commands.peak.text import peak_document
from memreplay.commands.summary.text import summary_document
from memreplay.render.document import Document, Heading, Note, Place, Row, Table
from memreplay.render.plain import render_plain
from memreplay.render.terminal import render_terminal
from tests.unit.commands.results import NO_EVENTS_PEAK, ODD_SUMMARY, PEAK, SUMMARY

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_styles_become_escape_sequences() -> None:
    text = render_terminal((Heading(("one",)), Note("careful", "warning")), width=80)
    assert text == "\x1b[1mone\x1b[0m\n\x1b[1;33mwarning: \x1b[0mcareful"


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize(
    "document",
    [
        peak_document(PEAK),
        peak_document(NO_EVENTS_PEAK),
        summary_document(SUMMARY),
        summary_document(ODD_SUMMARY),
    ],
)
def test_text_without_styles_equals_plain_output(document: Document, width: int) -> None:
    assert ANSI.sub("", render_terminal(document, width=width)) == render_plain(
        document, width=width
    )


def test_markup_and_environment_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(("where",), ("left",), (Row((Place("[red]f[/red] :smile:", "[b].py", 1),)),))
    document = (table, Note("careful", "warning"))
    before = render_terminal(document, width=80)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    assert render_terminal(document, width=80) == before
    assert "[red]f[/red] :smile:  [b].py:1" in before
