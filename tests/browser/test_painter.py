"""The slow painter itself: pictures that can be drawn by hand, and memreplay's own curves."""

from __future__ import annotations

from dataclasses import replace

import pytest

import memreplay as mr
from memreplay.snapshot.model import MeasureName
from tests import build
from tests.browser.painter import (
    Colouring,
    Life,
    Recording,
    View,
    colours,
    columns,
    edges,
    paint,
    recording,
    usage,
)
from tests.views import everything

#          2 2
#        1 1 1 3
#      0 0 0 . 3 3
#  m 0 1 2 3 4 5 6
LIVES = [Life(0, 1, 4, 10), Life(1, 2, 5, 10), Life(2, 3, 5, 10), Life(3, 5, 7, 20)]
SMALL = Recording(LIVES, 6, [0, 10, 10, 10, 90, 95])
WHOLE = View("event", 0, 7, 0, 40, 7, 4)


def drawn(of: Recording, view: View) -> list[str]:
    rows, _ = paint(of, view)
    return ["".join("." if one < 0 else str(one) for one in row) for row in rows]


def test_each_moment_has_a_column() -> None:
    assert usage(SMALL) == [0, 10, 20, 30, 20, 20, 20]
    assert drawn(SMALL, WHOLE) == [".......", "...2...", "..11233", ".000133"]


def test_a_column_of_several_moments_shows_the_highest_the_first_of_equal_ones() -> None:
    rows, moments = paint(SMALL, replace(WHOLE, width=2))
    assert moments == [2, 3]
    assert [row[0] for row in rows] == [-1, -1, 1, 0]
    assert [row[1] for row in rows] == [-1, 2, 1, 0]


def test_a_moment_that_is_wider_than_a_column_is_in_all_of_them() -> None:
    view = replace(WHOLE, start=3, stop=4, width=3)
    assert drawn(SMALL, view) == ["...", "222", "111", "000"]


def test_a_pixel_shows_who_holds_the_byte_in_its_middle() -> None:
    assert drawn(SMALL, replace(WHOLE, start=3, stop=4, width=1, height=3)) == [".", "2", "0"]
    # Middles at 6 2/3, 20 and 33 1/3; then, from byte 9 on, at 11.5, 16.5, 21.5 and 26.5.
    view = replace(WHOLE, start=3, stop=4, width=1, low=9, high=29)
    assert drawn(SMALL, view) == ["2", "2", "1", "1"]


def test_a_byte_on_an_edge_is_the_next_ones() -> None:
    # Middles at 5, 15, 25 and 35; then at 10, 30.
    assert drawn(SMALL, replace(WHOLE, start=3, stop=4, width=1)) == [".", "2", "1", "0"]
    assert drawn(SMALL, replace(WHOLE, start=3, stop=4, width=1, height=2)) == [".", "1"]


def test_on_the_axis_of_time_a_column_has_what_lasts_and_what_begins() -> None:
    # Events come after 0, 10, 10, 10, 90 and 95 us: columns of 10 us, from -20 us on.
    view = replace(WHOLE, axis="time", start=-20, stop=110, width=13)
    assert [list(one) for one in columns(SMALL, view)] == [
        [],
        [],
        [0, 1],
        [1, 2, 3, 4],
        *[[4]] * 7,
        [4, 5, 6],
        [],
    ]


@pytest.mark.parametrize("measure", ["requested", "held", "active", "allocated"])
@pytest.mark.parametrize("part", [(None, None), (2, 8)])
def test_allocations_add_up_to_the_curves(
    measure: MeasureName, part: tuple[int | None, int | None]
) -> None:
    snap = mr.open(build.dump(everything()), start=part[0], stop=part[1])
    for device in snap.devices:
        found = usage(recording(snap, device, measure))
        expected = snap.replay(device).measure(measure)
        assert found == [expected.start_bytes, *expected.series.tolist()]


def test_allocations_are_numbered_as_they_were_made_and_those_from_before_come_first() -> None:
    found = recording(mr.open(build.dump(everything())), 0, "requested").lives
    assert [one.id for one in found] == list(range(len(found)))
    assert [one.begin for one in found] == sorted(one.begin for one in found)
    assert found[0].begin == 0
    assert found[0].bytes == 700


#     two of one colour, one of another, upon nobody's
COLUMN = [-1, 2, 2, 2, 1, 1, 1, 0, 0]
COLOURS = Colouring(
    {0: 7, 1: 7, 2: 9}.__getitem__, lambda owner: owner != 2, {7: 0x646464}, [0, 0x204060], 0xFFFFFF
)


def column(of: list[int], by: Colouring) -> list[tuple[int, int, int]]:
    return [row[0] for row in colours([[one] for one in of], by)]


def test_colours() -> None:
    grey, dark, back = (100,) * 3, (80,) * 3, (255,) * 3
    faded = ((0x20 + 3 * 255 + 2) // 4, (0x40 + 3 * 255 + 2) // 4, (0x60 + 3 * 255 + 2) // 4)
    expected = [back, faded, faded, faded, grey, grey, dark, grey, grey]
    assert column(COLUMN, COLOURS) == expected
    # Nothing is darker that is low, that lies upon nobody, or at the bottom of the picture.
    assert column([1, 1, 0, 0, 0], COLOURS) == [grey] * 5
    assert column([1, 1, 1, -1], COLOURS) == [grey] * 3 + [back]
    assert column([1, 1, 1], COLOURS) == [grey] * 3
    # A run that reaches the top is as high as it is seen.
    assert column([1, 1, 1, 0], COLOURS) == [grey, grey, dark, grey]


def test_edges() -> None:
    rows = [[0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    drawn = ["  ##", "##.#", "#..#", "####"]
    assert edges(rows, 1) == [[one == "#" for one in line] for line in drawn]
