"""Tests of render/layout.py, through the plain sink, which adds nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.render.document import (
    Bar,
    Beside,
    Block,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
)
from memreplay.render.fit import cell_width
from memreplay.render.layout import MIN_WIDTH, lay_out
from memreplay.render.plain import render_plain
from memreplay.texts import clean

PLACE = Place("forward", "/home/ada/run/src/model/layers.py", 88)


def test_heading_wraps_between_phrases() -> None:
    heading = Heading(("device 0: peak 24.2 GiB", "at event 3,737 of 22,331", "+0.412 s"))
    assert render_plain((heading,), width=50).splitlines() == [
        "device 0: peak 24.2 GiB, at event 3,737 of 22,331,",
        "  +0.412 s",
    ]


def test_heading_words_wrap_if_they_must() -> None:
    heading = Heading(("device 0: peak 683.5 MiB requested at event 1,200,002 of 3,000,002", "x"))
    assert render_plain((heading,), width=60).splitlines() == [
        "device 0: peak 683.5 MiB requested at event 1,200,002 of",
        "  3,000,002,",
        "  x",
    ]
    assert len(render_plain((Heading(("word " * 99,)),), width=60).splitlines()) <= 3


def test_pairs_are_indented_under_their_values() -> None:
    pairs = Pairs((("a", "one two three four five six seven eight nine"), ("long", "x")))
    assert render_plain((pairs,), width=40).splitlines() == [
        "a     one two three four five six seven",
        "      eight nine",
        "long  x",
    ]


def test_columns_are_aligned_and_callers_indented() -> None:
    rows = (
        Row(("9", PLACE), ((Place("main", "/x/y.py", 1), "dim"),)),
        Row(("1,000", "7 more")),
    )
    table = Table(("n", "where"), ("right", "left"), rows)
    assert render_plain((table,), width=40).splitlines() == [
        "    n  where",
        "    9  forward  …/src/model/layers.py:88",
        "         main  /x/y.py:1",
        "1,000  7 more",
    ]


def test_only_related_lines_are_adjacent() -> None:
    document = (
        Heading(("one",)),
        Pairs((("a", "b"),)),
        Note("x"),
        Note("y", "warning"),
        Heading(("two",)),
        Note("z"),
    )
    assert render_plain(document, width=80).splitlines() == [
        "one",
        "a  b",
        "",
        "note: x",
        "warning: y",
        "",
        "two",
        "note: z",
    ]


def test_parts_keep_their_styles() -> None:
    lines = lay_out((Heading(("one",)), Note("careful", "warning")), 80)
    assert lines == [(("one", "strong"),), (("warning: ", "warning"), ("careful", "plain"))]


@pytest.mark.parametrize("width", [-1, 0, 1, 39])
def test_widths_below_the_minimum_give_the_minimum(width: int) -> None:
    table = Table(("n", "where"), ("right", "left"), (Row(("9", PLACE)),))
    assert lay_out((table,), width) == lay_out((table,), MIN_WIDTH)


words = st.text(st.characters(max_codepoint=0x2FF), max_size=90)
places = st.builds(Place, words, words, st.integers(0, 10**6), words)
blocks = st.one_of(
    st.builds(Heading, st.tuples(words, words)),
    st.builds(Heading, st.tuples(places)),
    st.builds(Pairs, st.tuples(st.tuples(st.just("name"), words))),
    st.builds(Note, words, st.sampled_from(["note", "warning"])),
    st.builds(
        lambda cell, last: Table(("n", "where"), ("right", "left"), (Row((cell, last)),)),
        st.integers(0, 10**9).map(str),
        st.one_of(places, words),
    ),
)


@given(st.lists(blocks, max_size=3), st.integers(MIN_WIDTH, 160))
def test_lines_fit_the_width(document: list[Block], width: int) -> None:
    for line in lay_out(tuple(document), width):
        assert cell_width("".join(text for text, _ in line)) <= width


def table(*rows: tuple[str, int]) -> Table:
    most = max(number for _, number in rows)
    cells = tuple(Row((name, Bar(number / most))) for name, number in rows)
    return Table(("of", ""), ("right", "left"), cells)


def test_bars_fill_the_available_width() -> None:
    bars = table(("a", 100), ("long", 50), ("b", 1), ("c", 0))
    for width, length in ((40, 34), (100, 40), (300, 40)):
        lines = render_plain((bars,), width=width).splitlines()
        assert lines[1:] == [
            "   a  " + "█" * length,
            "long  " + "█" * (length // 2),
            "   b  " + ("▏" if length < 50 else "█"),
            "   c",
        ]


def test_tables_are_side_by_side_if_they_fit() -> None:
    left = Table(("n",), ("left",), (Row(("one",)), Row(("two",)), Row(("three",))))
    right = Table(("m", "x"), ("right", "left"), (Row(("4", PLACE)), Row(("5", "a"))))
    wide = render_plain((Beside((left, right)),), width=116).splitlines()
    assert wide == [
        "n".ljust(60) + "m  x",
        "one".ljust(60) + "4  forward  /home/ada/run/src/model/layers.py:88",
        "two".ljust(60) + "5  a",
        "three",
    ]
    below = render_plain((Beside((left, right)),), width=115)
    assert below == render_plain((left, right), width=115)


def test_optional_columns_are_dropped_if_the_last_is_too_narrow() -> None:
    row = Row(("a" * 10, "b" * 10, "c" * 10, PLACE), ((PLACE, "dim"),))
    spared = Table(("1", "2", "3", "4"), ("left", "left", "left", "left"), (row,), spare=(1, 2))
    titles = [render_plain((spared,), width=w).splitlines()[0].split() for w in (72, 71, 60, 59)]
    assert titles == [["1", "2", "3", "4"], ["1", "3", "4"], ["1", "3", "4"], ["1", "4"]]
    first = render_plain((spared,), width=59).splitlines()[1]
    assert first == "aaaaaaaaaa  forward  /home/ada/run/src/model/layers.py:88"[:60]


def test_distinguishing_notes_move_below_if_they_do_not_fit() -> None:
    def table(*notes: str) -> Table:
        rows = tuple(
            Row(("1", Place("forward", "/a/b/layers.py", 88, note)), ((Place("main"), "dim"),))
            for note in notes
        )
        return Table(("n", "where"), ("right", "left"), rows)

    assert render_plain((table("aten::mul_Tensor", "aten::sigmoid"),), width=40).splitlines() == [
        "n  where",
        "1  forward  /a/b/layers.py:88",
        "     aten::mul_Tensor",
        "     main",
        "1  forward  /a/b/layers.py:88",
        "     aten::sigmoid",
        "     main",
    ]
    # A note that distinguishes nothing is left out; with enough room, a note takes no extra line.
    assert "aten::" not in render_plain((table("aten::mul_Tensor"),), width=40)
    assert (
        len(render_plain((table("aten::mul_Tensor", "aten::sigmoid"),), width=80).split("\n")) == 5
    )


def test_optional_number_columns_are_dropped_first() -> None:
    rows = (Row(("what is said of it at some length", "1.0 GiB", "2.0 GiB")),)
    table = Table(("when", "spare", "kept"), ("left", "right", "right"), rows, spare=(1,))
    assert "spare" in render_plain((table,), width=60)
    narrow = render_plain((table,), width=44)
    assert "spare" not in narrow
    assert narrow.splitlines()[1] == "what is said of it at some length  2.0 GiB"


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_different_names_never_look_the_same(width: int) -> None:
    inner = " > ".join(f"transformer_{i}.py:{i}" for i in range(9))
    names = [
        *(Place(f"unet.py:{i} > {inner} > attention.py:{j}") for i in (1, 2) for j in (1, 2)),
        *(Place("at::native::kernel<" + "at::native::" * 9 + last) for last in ("A>", "B>")),
        *(Place("f", "/w/" + "layers/" * 30 + last + "/" + "x" * 90 + ".py", 7) for last in "ab"),
    ]
    rows = tuple(Row(("1.0 MiB", name)) for name in names)
    table = Table(("bytes", "module"), ("right", "left"), rows)
    _, *lines = render_plain((table,), width=width).splitlines()
    assert all(cell_width(line) <= width for line in lines)
    starts = [i for i, line in enumerate(lines) if line.startswith("1.0 MiB")]
    shown = {"\n".join(lines[i:j]) for i, j in pairwise([*starts, len(lines)])}
    assert len(shown) == len(names)


@given(
    st.lists(st.text("ab> .:/", max_size=99).map(clean), max_size=6, unique=True),
    st.integers(MIN_WIDTH, 100),
)
def test_rows_look_the_same_only_if_they_are(names: list[str], width: int) -> None:
    names = [" ".join(name.split()) for name in names]  # lines break at spaces
    rows = tuple(Row(("1", Place(name))) for name in dict.fromkeys(names))
    lines = render_plain((Table(("n", "name"), ("right", "left"), rows),), width=width).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("1")]
    shown = {"\n".join(lines[i:j]) for i, j in pairwise([*starts, len(lines)])}
    assert len(shown) == len(rows)


def test_callers_tell_rows_apart() -> None:
    callers = [Place("main", "/w/train.py", 7, "a" * 60 + last) for last in "ab"]
    rows = tuple(Row(("1", PLACE), ((caller, "dim"),)) for caller in callers)
    table = Table(("n", "where"), ("right", "left"), rows)
    _, *lines = render_plain((table,), width=50).splitlines()
    assert lines[: len(lines) // 2] != lines[len(lines) // 2 :]


def test_wrapped_names_are_not_escaped_as_commands() -> None:
    names = ["at::native::" * 20 + last for last in "ab"]
    for width in range(MIN_WIDTH, 80):
        table = Table(("n", "name"), ("right", "left"), tuple(Row(("1", Place(n))) for n in names))
        text = render_plain((table,), width=width)
        assert "\\x3a" not in text
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    "title, cell, lines",
    [
        ("allocated at, and its callers", "x", ["allocated at, and its", "callers"]),
        (
            "why",
            "the blocks are all too small for it",
            ["the blocks are all", "  too small for it"],
        ),
    ],
)
def test_titles_and_sentences_are_wrapped_instead_of_cut(
    title: str, cell: str, lines: list[str]
) -> None:
    table = Table(("n", title), ("right", "left"), (Row(("9" * 14, cell)),))
    found = [line[16:] for line in render_plain((table,), width=40).splitlines()]
    assert "\n".join(lines) in "\n".join(found)


def test_title_of_a_last_column_of_numbers_is_not_cut() -> None:
    cells = ("9" * 12, "8" * 12, "7" * 12)
    table = Table(("a", "b", "allocated"), ("right",) * 3, (Row((*cells[:2], "7")),), spare=(1,))
    assert render_plain((table,), width=40).splitlines()[0].split() == ["a", "b", "allocated"]
    assert render_plain((table,), width=36) == render_plain((table,), width=40)
