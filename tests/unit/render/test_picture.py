"""picture: dots and labels of small charts that can be checked by eye."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memreplay.render import picture
from memreplay.render.axes import Tick
from memreplay.render.picture import Buckets, Cells, Column, Pen


def text(cells: Cells) -> list[str]:
    return ["".join(cell.text for cell in row) for row in cells]


def steps(*values: int) -> list[Column]:
    return [Column(value, value, i) for i, value in enumerate(values)]


def test_columns_keep_the_extremes_of_their_buckets() -> None:
    found = picture.columns(Buckets([0, 2, 4, 6, 8], [1, 2, 0, 4], [5, 9, 7, 4]), 0, 8, 2)
    assert found == [Column(1, 9, 1), Column(0, 7, 2)]
    # With fewer buckets than columns, each bucket fills several columns.
    found = picture.columns(Buckets([0, 4, 8], [1, 2], [1, 3]), 0, 8, 4)
    assert found == [Column(1, 1, 0)] * 2 + [Column(2, 3, 1)] * 2
    # A series without buckets is blank.
    assert picture.columns(Buckets([4, 6], [1], [1]), 0, 8, 4) == [
        None,
        None,
        Column(1, 1, 0),
        None,
    ]


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_no_extreme_is_lost(pairs: list[tuple[int, int]], n: int) -> None:
    lows, highs = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    edges = [i * 3 for i in range(len(pairs) + 1)]
    found = [one for one in picture.columns(Buckets(edges, lows, highs), 0, edges[-1], n) if one]
    assert len(found) == n
    assert min(one.low for one in found) == min(lows)
    assert max(one.high for one in found) == max(highs)
    assert all(highs[one.bucket] == one.high for one in found)


def test_area_is_filled_up_to_its_values() -> None:
    found = picture.area(steps(0, 1, 2, 3, 4, 5, 6, 8), 0, 8, 2, "hue1")
    assert text(found) == ["  ⢀⣼", "⢀⣴⣿⣿"]
    assert {cell.hue for row in found for cell in row} == {"hue1", "plain"}


def test_area_between_minimum_and_maximum_is_half_filled() -> None:
    (row,) = text(picture.area([Column(0, 4, 0), Column(4, 4, 0)], 0, 4, 1, "hue1"))
    assert row == "⢽"
    (row,) = text(picture.area([Column(0, 0, 0), None], 0, 4, 1, "hue1"))
    assert row == " "


def test_lines_are_joined_and_marked() -> None:
    found = picture.line(steps(1, 1, 1, 8, 8, 8, 1, 1), 0, 8, 2, Pen("hue2", "1", 0))
    assert text(found) == [" ⢸1 ", "⣀⡇ ⣇"]
    assert {cell.hue for row in found for cell in row} == {"hue2", "plain"}


def test_layers_are_stacked() -> None:
    found = picture.stack(
        [[2, 1, 1], [0, 0, 4], None, [4, 0, 0]], 4, 4, "ab.", ["area1", "area2", "area0"]
    )
    assert text(found) == [".. a", "b. a", "a. a", "a. a"]
    assert [cell.hue for cell in found[1]] == ["area2", "area0", "plain", "area1"]


def test_upper_picture_covers_the_lower() -> None:
    low = picture.line(steps(1, 1), 0, 4, 1, Pen("hue1", "1", 9))
    high = picture.line(steps(4, 4), 0, 4, 1, Pen("hue2", "2", 9))
    assert text(picture.overlay([low, high])) == ["⣉"]
    marked = picture.overlay([[[picture.Cell("1", "hue1")]], high])
    assert text(marked) == ["1"]


def test_frame_has_ticks_and_footer_has_labels() -> None:
    cells = [[picture.EMPTY] * 6 for _ in range(4)]
    lines, margin = picture.framed(cells, [Tick(0, "0 B"), Tick(8, "8 B")], 0, 8)
    assert margin == 5
    assert ["".join(part for part, _ in line) for line in lines] == [
        "8 B ┤      ",
        "    │      ",
        "    │      ",
        "0 B ┤      ",
    ]
    rule, labels = picture.foot([(0, "0"), (2, "2"), (5, "500")], 6, margin)
    assert rule[0][0] == "    └┬─┬──┬"
    assert labels[0][0] == "     0  500"  # no room for the label 2
