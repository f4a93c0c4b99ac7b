"""Tests of render/markdown.py."""

from __future__ import annotations

from memreplay.render.document import (
    Bar,
    Beside,
    Heading,
    Note,
    Pairs,
    Picture,
    Place,
    Row,
    Table,
)
from memreplay.render.markdown import render_markdown

TABLE = Table(
    ("bytes", "at"),
    ("right", "left"),
    (
        Row(
            ("1 B", Place("f|g", "/a_b/c.py", 3, "aten::mm")), ((Place("<module>", "d.py"), "dim"),)
        ),
    ),
)


def test_each_kind_of_block_becomes_markdown() -> None:
    text = render_markdown(
        (
            Heading((Place(file="a_b.pkl"),)),
            Heading(("device 0", "peak 1 B")),
            Pairs((("why", "1 * 2"), ("how", "@ana"))),
            TABLE,
            Note("# not a heading", "warning"),
            Picture(((("a ", "plain"), ("```b", "dim")),)),
        )
    )
    assert text.split("\n\n") == [
        r"### a\_b.pkl",
        "#### device 0, peak 1 B",
        "- **why**: 1 \\* 2\n- **how**: `@ana`",
        "\n".join(
            (
                "| bytes | at |",
                "| ---: | --- |",
                r"| 1 B | f\|g  /a\_b/c.py:3  aten::mm<br>&lt;module&gt;  d.py |",
            )
        ),
        r"> **warning:** \# not a heading",
        "````\na ```b\n````",
    ]


def test_source_line_is_below_its_location() -> None:
    row = Row((Place("f", "a.py", 3, source="<b>|*x*"),), ((Place("g", "b.py"), "dim"),))
    text = render_markdown((Table(("at",), ("left",), (row,)),))
    assert text.splitlines()[-1] == r"| f  a.py:3<br>&gt; &lt;b&gt;\|\*x\*<br>g  b.py |"


def test_side_by_side_tables_are_stacked() -> None:
    text = render_markdown((Beside((TABLE, TABLE)),))
    assert text.count("| ---: | --- |") == 2


def test_bars_are_drawn_with_blocks() -> None:
    table = Table(("part",), ("left",), (Row((Bar(0.5),)),))
    assert "| ██████████ |" in render_markdown((table,))


def test_empty_pairs_give_no_output() -> None:
    assert render_markdown((Pairs(()),)) == ""


def test_terminal_escapes_are_removed() -> None:
    assert "\x1b" not in render_markdown((Heading(("\x1b[31m",)), Note("\x1b]0;x\x07")))
