"""Tests of render/html.py: a document as a notebook displays it."""

from __future__ import annotations

from xml.etree import ElementTree

from memreplay.render.document import (
    Bar,
    Beside,
    Block,
    Heading,
    Note,
    Pairs,
    Picture,
    Place,
    Row,
    Table,
)
from memreplay.render.html import MOST_BLOCKS, MOST_ROWS, render_html

HOSTILE = "</td><script>alert(1)</script>\x1b[31m\u202e"


def texts(*blocks: Block) -> list[str]:
    """Return all strings in order; the HTML is well-formed."""
    return [
        one.strip() for one in ElementTree.fromstring(render_html(blocks)).itertext() if one.strip()
    ]


def test_every_kind_of_block_becomes_html() -> None:
    table = Table(
        ("bytes", "share", "place"),
        ("right", "left", "left"),
        (Row(("5", Bar(0.5), Place("f", "a.py", 3)), below=((Place("g", "b.py", 4), "plain"),)),),
    )
    assert texts(
        Heading(("device 0", "peak 5")),
        Pairs((("end", "3"),)),
        Picture(((("ab", "plain"), ("c", "dim")),)),
        table,
        Beside((table, table)),
        Note("look there", "warning"),
    ) == [
        "device 0, peak 5",
        *("end", "3"),
        "abc",
        *(("bytes", "share", "place", "5", "█" * 5, "f  a.py:3", "g  b.py:4") * 3),
        *("warning:", "look there"),
    ]


def test_markup_in_names_has_no_effect() -> None:
    blocks = (
        Heading((HOSTILE,)),
        Pairs(((HOSTILE, HOSTILE),)),
        Note(HOSTILE),
        Picture((((HOSTILE, "plain"),),)),
        Table((HOSTILE,), ("left",), (Row((Place(HOSTILE, HOSTILE),)),)),
    )
    html = render_html(blocks)
    ElementTree.fromstring(html)
    assert "<script" not in html
    assert not {"\x1b", "\u202e"} & set(html)


def test_long_text_is_cut() -> None:
    long = Table(("n",), ("right",), tuple(Row((str(i),)) for i in range(1000)))
    assert texts(long)[-2:] == [str(MOST_ROWS - 1), f"… {1000 - MOST_ROWS} more"]
    assert texts(*[Note("a")] * 100)[-1] == "… (print shows all)"
    assert texts(*[Note("a")] * 100).count("a") == MOST_BLOCKS
    assert len(render_html((Note("x" * 10**6),))) < 1000
