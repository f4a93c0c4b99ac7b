"""Tests of commands/sql/text.py: column widths, cut cells, and rows after the first ones."""

from __future__ import annotations

from memreplay.commands.sql.text import table_lines, tables_text

ROWS: list[list[str | None]] = [["/home/ana/gpt/model.py", "x" * 30, None], ["5", "123456789", "7"]]


def lines(width: int | None) -> list[str]:
    return list(table_lines(["file", "bytes"], [False, True], [ROWS], width))


def test_numbers_are_never_cut() -> None:
    assert lines(None) == [
        "file                                bytes",
        "/home/ana/gpt/model.py                  5",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  123456789",
        "null                                    7",
    ]
    assert lines(30)[1:] == [
        "…/ana/gpt/model.py           5",
        "xxxxxxxxxxxxxxxxxx…  123456789",
        "null                         7",
    ]
    assert [len(line) for line in lines(10)] == [23] * 4


def test_titles_are_not_cut_unless_they_are_expressions() -> None:
    long = [["y" * 40], ["z" * 40]]
    titles = ("segment_category_name", "substring(file, 1, 25)")
    found = [
        next(table_lines([title, "file"], [False, False], [long], 40)).split("  ")[0]
        for title in titles
    ]
    assert found == ["segment_category_name", "substring(file, 1,…"]


def test_later_rows_fit_the_widths_of_the_first() -> None:
    first = [["a"] * 3000, ["1"] * 3000]
    later = [["abcdefgh", "é"], ["22", "333333"]]
    found = list(table_lines(["t", "n"], [False, True], [first, later], None))
    assert found[0:2] == ["t  n", "a  1"]
    assert found[3001:] == ["…  22", "é  333333"]


def test_control_characters_are_escaped() -> None:
    assert list(table_lines(["a\x1b", "b"], [False, False], [], None)) == ["a\\x1b  b"]
    assert list(table_lines(["a"], [False], [[["\x1b[2J"]]], None))[1] == "\\x1b[2J"


def test_list_of_tables_fits_the_width() -> None:
    assert tables_text([("t", 1, ["aa int32", "bb text?"]), ("u", 1000, ["c bool"])], 20) == (
        "t  1 row\n  aa int32,\n  bb text?\nu  1,000 rows\n  c bool"
    )
