"""Documents for language models: one line per row, whole paths, hostile strings escaped."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.render.compact import FILE, FUNCTION, OTHER, compact_lines, compact_table
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

CALL, CALLER = Place("step", "/w/train.py", 7), Place("main", "/w/train.py", 9, "(2 paths)")
CALLS = Table(
    ("bytes", "allocated at, and its callers"),
    ("right", "left"),
    (
        Row(("1.0 MiB", CALL), ((CALLER, "dim"), (Place("run"), "dim"))),
        Row(("", Place(file="/w/x.py"))),
    ),
)


def texts(document: Document) -> list[str]:
    return [line.text for line in compact_lines(document)]


def test_every_kind_of_block_becomes_lines() -> None:
    document: Document = (
        Heading(("device 0: peak", Place(file="a.pkl"))),
        Pairs((("live", "2 blocks"), ("end", "0 B"))),
        Note("few"),
        Note("many", "warning"),
        Picture(((("a ", "plain"), ("b  ", "dim")), ())),
        Beside((Table(("x",), ("left",), (Row((Bar(0.5),)),)), CALLS)),
    )
    assert texts(document) == [
        "device 0: peak, a.pkl",
        "live: 2 blocks",
        "end: 0 B",
        "note: few",
        "warning: many",
        "a b",
        "",
        "x",
        "50.0%",
        "bytes | allocated at, and its callers",
        "1.0 MiB | step /w/train.py:7 < main /w/train.py:9 (2 paths) < run",
        " | /w/x.py",
    ]


def test_each_row_knows_its_tables_headings() -> None:
    head, *rows = compact_lines((CALLS,))
    assert head.titles == ""
    assert {row.titles for row in rows} == {head.text}


def test_text_after_a_node_that_is_not_a_call_is_below_it() -> None:
    row = Row((Place("a:1,"),), ((Place("b:2"), "plain"),))
    assert texts((Table(("settings",), ("left",), (row,)),)) == ["settings", "a:1, b:2"]


@pytest.mark.parametrize("title", ["requested at, and its callers", "out of memory, requested at"])
def test_callers_are_below_a_call(title: str) -> None:
    row = Row((CALL,), ((CALLER, "dim"),))
    assert texts((Table((title,), ("left",), (row,)),))[1:] == [
        "step /w/train.py:7 < main /w/train.py:9 (2 paths)"
    ]


def test_source_line_follows_its_location() -> None:
    row = Row((replace(CALL, source="y = f(x)\x1b"),), ((CALLER, "dim"),))
    assert texts((Table(("allocated at, and its callers",), ("left",), (row,)),))[1:] == [
        "step /w/train.py:7 `y = f(x)\\x1b` < main /w/train.py:9 (2 paths)"
    ]


def test_short_paths_are_shown_in_full() -> None:
    path = "/" + "/".join(["folder"] * 20) + "/model.py"
    assert len(path) < FILE
    (line,) = texts((Heading((Place("f", path, 3),)),))
    assert line == f"f {path}:3"
    (line,) = texts((Heading((Place("f" * 500, "/a" * 500 + "/model.py", 3),)),))
    assert len(line) <= FUNCTION + FILE + 4
    assert line.endswith("/model.py:3")


@pytest.mark.parametrize("hostile", ["\x1b[31m", "a\nb", "\u202eb", "\x00", "\r", "\u2028"])
def test_hostile_text_is_escaped(hostile: str) -> None:
    place = Place(hostile, hostile, 1, hostile)
    table = Table((hostile,), ("left",), (Row((hostile,)), Row((place,), ((place, "dim"),))))
    document: Document = (
        Heading((hostile, place)),
        Pairs(((hostile, hostile),)),
        Note(hostile),
        Picture((((hostile, "plain"),),)),
        table,
    )
    lines = [*texts(document), *(one.text for one in compact_table([hostile], [[hostile]]))]
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 9


def test_table_of_texts_is_cut_and_has_headings() -> None:
    lines = compact_table(["a", "b"], [["1", "x" * 9000], ["2", ""]])
    assert [line.titles for line in lines] == ["", "a | b", "a | b"]
    assert lines[1].text == "1 | " + "x" * (OTHER - 1) + "…"
    assert lines[2].text == "2 |"
