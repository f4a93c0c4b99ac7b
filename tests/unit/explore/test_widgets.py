"""Tests of explore/widgets.py: rows are cut where they don't differ, and only changes are sent."""

from __future__ import annotations

from typing import Any

import pytest
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from memreplay.explore.widgets import SCALE, CurveView, end_of_change, fitted_places
from memreplay.render.document import Place
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.explore.playing import explorer, play, screen

OWN = Place("allocate", "/me/flexgen/pytorch_backend.py", 190)
OUTER = Place("… init_weight", "/me/flexgen/flex_opt.py", 664)


@pytest.mark.parametrize("width", range(40, 120))
def test_rows_keep_the_location_that_tells_them_apart(width: int) -> None:
    text = fitted_places((OWN, OUTER), width)
    assert len(text) <= width
    assert "flex_opt.py:664" in text
    assert ":190" in text


def test_further_locations_need_room() -> None:
    via = Place("via einops: einsum", "/lib/einops/einops.py", 916)
    assert fitted_places((OWN, via), 36) == "allocate  …/pytorch_backend.py:190"
    assert fitted_places((OWN, via), 60) == (
        "allocate  /me/flexgen/pytorch_backend.py:190  einops.py:916"
    )
    same = Place("… forward", OWN.file, 77)
    assert fitted_places((OWN, same), 44) == "allocate  …/pytorch_backend.py:190  … :77"


def test_lines_are_sent_up_to_their_last_change() -> None:
    def strip(*texts: str) -> Strip:
        return Strip([Segment(text) for text in texts])

    old = strip(" 12 ", "forward", "   ")
    assert end_of_change(old, strip(" 13 ", "forward", "   "), 20) == 4
    assert end_of_change(old, strip(" 12 ", "forwards", "  "), 20) == 14
    assert end_of_change(old, strip(" 12 ", "forwar", "    "), 8) == 8
    assert end_of_change(old, strip(" 12 ", "forward"), 20) == 20
    # lines may be longer than the screen
    assert end_of_change(old, strip(" 12 ", "forwark", "   "), 12) == 11
    assert end_of_change(old, strip(" 12 ", "forwark", "   "), 10) == 10
    assert end_of_change(Strip([]), Strip([]), 20) == 0


def test_moving_the_cursor_sends_two_columns_of_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    app = explorer()
    drawn: list[Region] = []
    refresh = CurveView.refresh

    def watched(self: CurveView, *regions: Region, **options: Any) -> Any:
        drawn.extend(regions)
        return refresh(self, *regions, **options)

    async def do(pilot: Any) -> None:
        await pilot.press("home", "right")
        monkeypatch.setattr(CurveView, "refresh", watched)
        await pilot.press("right")
        assert [(one.x, one.width, one.height) for one in drawn] == [
            (SCALE + 1 + at, 1, app.curve.size.height) for at in (1, 2)
        ]
        text = screen(app)
        drawn.clear()
        await pilot.press("2", "3", "tab")  # another view has the same curve
        assert drawn == []
        await pilot.press("1", "right", "left")
        assert screen(app)[: app.curve.size.height] == text[: app.curve.size.height]
        drawn.clear()
        await pilot.press("plus")
        assert {one.y for one in drawn} > {0}

    play(app, do)


def test_marks_of_one_colour_are_one_segment() -> None:
    app = explorer(ROOT / "examples" / "serving_oom.pkl.gz")

    async def do(pilot: Any) -> None:
        await pilot.press("home")
        line = app.curve.lines[-2]
        assert sum(one.text.count("▲") for one in line) > 10
        assert len([*line]) <= 6

    play(app, do)


def test_peak_at_the_start_is_marked() -> None:
    builder = SnapshotBuilder()
    builder.free(1 << 32, 4096)  # carried over
    app = explorer(build.dump(builder.finish_segments().build()))

    async def do(pilot: Any) -> None:
        assert app.explored.marks(app.looked).peaks == [app.bounds[0]]
        assert "".join(one.text for one in app.curve.lines[-2])[SCALE + 1] == "▲"
        await pilot.press("end", "plus")

    play(app, do)
