"""Tests of render/blocks.py: documents as records."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import memreplay as mr
from memreplay.commands.report.find import overview
from memreplay.commands.report.text import report_document
from memreplay.render.blocks import (
    BlockRow,
    HeadingBlock,
    LinesBlock,
    NoteBlock,
    PairsBlock,
    ReportBlock,
    TableBlock,
    blocks_of,
)
from memreplay.render.document import (
    Bar,
    Beside,
    Document,
    Heading,
    Note,
    Pairs,
    Picture,
    Place,
    Row,
    Table,
)
from memreplay.render.plain import render_plain
from memreplay.render.record_json import plain
from tests.conftest import SNAPSHOTS

TABLE = Table(
    ("bytes", "", "at"),
    ("right", "left", "left"),
    (
        Row(("1 B", Bar(0.5), Place("f", "/a.py", 3, "note")), ((Place("g", "/b.py"), "dim"),)),
        Row(("2 B", Bar(1.0), "more\x1b"), style="dim"),
        Row(
            ("3 B", Bar(1.0), Place("h", "/c.py", 5, source="x = 1\x1b")),
            ((Place("i", source="</p>"), "dim"), (Place("j"), "dim")),
        ),
    ),
)
SHOWN = TableBlock(
    titles=("bytes", "at"),
    aligns=("right", "left"),
    rows=(
        BlockRow(("1 B", "f  /a.py:3  note"), ("g  /b.py",)),
        BlockRow(("2 B", "more\\x1b"), ()),
        BlockRow(("3 B", "h  /c.py:5"), ("> x = 1\\x1b", "i", "> </p>", "j")),
    ),
)


@pytest.mark.parametrize(
    "document, blocks",
    [
        ((), ()),
        ((Heading(("a", Place("f", "/x.py", 1))),), (HeadingBlock("a, f  /x.py:1"),)),
        ((Pairs((("a\n", "b\u202e"),)),), (PairsBlock((("a\\n", "b\\u202e"),)),)),
        (
            (Note("so"), Note("not so", "warning")),
            (NoteBlock("so", False), NoteBlock("not so", True)),
        ),
        ((Picture((((" a", "dim"), ("b", "plain")), ())),), (LinesBlock((" ab", "")),)),
        ((TABLE,), (SHOWN,)),
        ((Beside((TABLE, TABLE)),), (SHOWN, SHOWN)),
        ((Table(("a",), ("left",), ()),), (TableBlock(titles=("a",), aligns=("left",), rows=()),)),
    ],
)
def test_document_becomes_records_that_round_trip(
    document: Document, blocks: tuple[ReportBlock, ...]
) -> None:
    found = blocks_of(document)
    assert found == blocks
    again = msgspec.json.decode(json.dumps(plain(found)), type=tuple[ReportBlock, ...])
    assert again == blocks


def texts(value: object) -> list[str]:
    """Return all strings in some blocks."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [one for key, one in value.items() if key not in ("kind", "aligns")]
    return [text for one in value for text in texts(one)] if isinstance(value, list) else []


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_report_contains_the_words_of_its_text(path: Path) -> None:
    document = report_document(overview(mr.open(path), fold=True))
    words = set("\n".join(texts(json.loads(json.dumps(plain(blocks_of(document)))))).split())
    shown = set(render_plain(document, width=1000).split())
    marks = {"note:", "warning:"}
    assert {one.strip(",") for one in shown - marks} == {one.strip(",") for one in words}
