"""Test the slow reference painter against hand-drawn pictures and memreplay's own curves."""

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


def test_every_moment_has_a_column() -> None:
    assert usage(SMALL) == [0, 10, 20, 30, 20, 20, 20]
    assert drawn(SMALL, WHOLE) == [".......", "...2...", "..11233", ".000133"]


def test_column_with_several_moments_shows_the_first_of_the_highest() -> None:
    rows, moments = paint(SMALL, replace(WHOLE, width=2))
    assert moments == [2, 3]
    assert [row[0] for row in rows] == [-1, -1, 1, 0]
    assert [row[1] for row in rows] == [-1, 2, 1, 0]


def test_moment_wider_than_a_column_fills_all_its_columns() -> None:
    view = replace(WHOLE, start=3, stop=4, width=3)
    assert drawn(SMALL, view) == ["...", "222", "111", "000"]


def test_pixel_shows_the_owner_of_its_middle_byte() -> None:
    assert drawn(SMALL, replace(WHOLE, start=3, stop=4, width=1, height=3)) == [".", "2", "0"]
    # The rows' middles are at 6 2/3, 20 and 33 1/3; then, starting at byte 9, at 11.5, 16.5, 21.5
    # and 26.5.
    view = replace(WHOLE, start=3, stop=4, width=1, low=9, high=29)
    assert drawn(SMALL, view) == ["2", "2", "1", "1"]


def test_byte_on_an_edge_belongs_to_the_next_owner() -> None:
    # The rows' middles are at 5, 15, 25 and 35; then at 10 and 30.
    assert drawn(SMALL, replace(WHOLE, start=3, stop=4, width=1)) == [".", "2", "1", "0"]
    assert drawn(SMALL, replace(WHOLE, start=3, stop=4, width=1, height=2)) == [".", "1"]


def test_column_on_the_time_axis_covers_all_moments_that_overlap_it() -> None:
    # Events are at 0, 10, 10, 10, 90 and 95 us; columns are 10 us wide and start at -20 us.
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


def test_carried_over_allocations_get_the_first_numbers() -> None:
    found = recording(mr.open(build.dump(everything())), 0, "requested").lives
    assert [one.id for one in found] == list(range(len(found)))
    assert [one.begin for one in found] == sorted(one.begin for one in found)
    assert found[0].begin == 0
    assert found[0].bytes == 700


# Two allocations of one colour and one of another, above empty space.
COLUMN = [-1, 2, 2, 2, 1, 1, 1, 0, 0]
COLOURS = Colouring(
    {0: 7, 1: 7, 2: 9}.__getitem__, lambda owner: owner != 2, {7: 0x646464}, [0, 0x204060], 0xFFFFFF
)


def column(of: list[int], by: Colouring) -> list[tuple[int, int, int]]:
    return [row[0] for row in colours([[one] for one in of], by)]


def test_column_has_separators_and_faded_colours() -> None:
    grey, dark, back = (100,) * 3, (80,) * 3, (255,) * 3
    faded = ((0x20 + 3 * 255 + 2) // 4, (0x40 + 3 * 255 + 2) // 4, (0x60 + 3 * 255 + 2) // 4)
    expected = [back, faded, faded, faded, grey, grey, dark, grey, grey]
    assert column(COLUMN, COLOURS) == expected
    # No pixel is darkened in a low run, above empty space, or at the bottom of the picture.
    assert column([1, 1, 0, 0, 0], COLOURS) == [grey] * 5
    assert column([1, 1, 1, -1], COLOURS) == [grey] * 3 + [back]
    assert column([1, 1, 1], COLOURS) == [grey] * 3
    # A run that reaches the top is as high as its visible part.
    assert column([1, 1, 1, 0], COLOURS) == [grey, grey, dark, grey]


def test_edges_mark_the_border_of_an_allocation() -> None:
    rows = [[0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    drawn = ["  ##", "##.#", "#..#", "####"]
    assert edges(rows, 1) == [[one == "#" for one in line] for line in drawn]
