"""Tests of notebook/streams.py: a cell is never flooded, and hidden output is kept."""

from __future__ import annotations

import io
from typing import Any, cast

import click
import pytest

from memreplay.errors import UsageError
from memreplay.notebook import streams
from memreplay.notebook.streams import CellBytes, CellText


def stream() -> tuple[CellText, io.StringIO]:
    cell = io.StringIO()
    return CellText(cell, shows_colour=True, columns=100), cell


def test_output_is_forwarded_and_kept() -> None:
    out, cell = stream()
    click.echo("a", file=cast("Any", out))
    assert cell.getvalue() == "a\n"
    click.echo(b"caf\xc3\xa9", file=cast("Any", out))
    out.buffer.flush()
    out.end()
    assert cell.getvalue() == out.text() == "a\ncafé\n"
    assert not out.isatty()


def test_character_may_be_split_between_writes() -> None:
    out, cell = stream()
    for piece in (b"caf\xc3", b"\xa9"):
        out.buffer.write(piece)
        out.buffer.flush()
    assert cell.getvalue() == "café"


@pytest.mark.parametrize("data", [b"PAR1\xff\x00", b"text\x00more"])
def test_invalid_utf8_is_an_error(data: bytes) -> None:
    out, cell = stream()
    out.buffer.write(data)
    with pytest.raises(UsageError, match="isn't text"):
        out.buffer.flush()
    assert cell.getvalue() == ""


def test_output_in_a_cell_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_SHOWN", 10)
    out, cell = stream()
    for _ in range(5):
        out.write("abcd")
    out.end()
    assert cell.getvalue() == f"abcdabcdab\n{streams.MORE}\n"
    assert out.text() == "abcd" * 5
    out, cell = stream()
    out.write("0123456789")
    out.end()
    assert cell.getvalue() == "0123456789"


def test_displayed_json_has_a_lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_JSON", 4)
    out, cell = stream()
    out.write('{"a": 1}')
    out.end()
    assert cell.getvalue() == f'{{"a"\n{streams.MORE_JSON}\n'


def test_kept_output_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_KEPT", 6)
    out, _ = stream()
    for _ in range(5):
        out.write("abcd")
    assert out.text() == "abcdab"


def test_binary_output_of_a_page_is_kept_unchanged() -> None:
    out = CellBytes()
    out.write("é")
    out.buffer.write(b"\xff")
    assert out.buffer.getvalue() == b"\xc3\xa9\xff"


def test_closed_cell_is_not_an_error() -> None:
    out, cell = stream()
    out.write("a")
    cell.close()
    out.buffer.close()  # as Python does with a stream that is no longer referenced
    out.close()
