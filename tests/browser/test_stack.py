"""The stacked picture zooms up and down, hides what was carried over, and colours each allocation
by itself.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memreplay as mr
from tests import build
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.painter import Recording, paint, recording, usage
from tests.browser.test_picture import check_pixels, view_of
from tests.browser.viewed import Viewed
from tests.build import START_US, FrameSpec

pytestmark = pytest.mark.browser

MIB, GIB = 1 << 20, 1 << 30
MAIN: FrameSpec = ("main", "/home/u/train.py", 3)
STEP: FrameSpec = ("step", "/home/u/train.py", 9)
EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("transformer_step"))
DEEPER = next(one for one in EXAMPLES if one.name.startswith("transformer_deeper"))


def below() -> dict[str, Any]:
    """Build 22 GiB that were carried over, and 4 MiB and 64 MiB on top."""
    made = build.SnapshotBuilder()
    made.alloc(0x1000, 4 * MIB, frames=[STEP, MAIN])
    made.alloc(0x100_0000, 64 * MIB, frames=[STEP, MAIN])
    made.free(0x100_0000, 64 * MIB, frames=[STEP, MAIN])
    made.free(0x9_0000_0000, 22 * GIB, frames=[MAIN])
    made.annotations.append(
        {"name": "step#1", "stage": "START", "device": 0, "time_us": START_US + 1}
    )
    return made.build()


def whole_above(of: Recording) -> int:
    """Return the end of the visible bytes with a margin above the highest moment."""
    return max(usage(of)) + 34 * MIB


def stage(page: Viewed) -> dict[str, float]:
    found: dict[str, float] = page.tab.evaluate(
        "() => document.querySelector('[data-what=picture]').getBoundingClientRect().toJSON()"
    )
    return found


def mouse(page: Viewed) -> Any:
    return page.tab.page.mouse  # type: ignore[attr-defined]


def keyboard(page: Viewed) -> Any:
    return page.tab.page.keyboard  # type: ignore[attr-defined]


def drag(page: Viewed, start: tuple[float, float], stop: tuple[float, float], key: str) -> None:
    if key:
        keyboard(page).down(key)
    mouse(page).move(*start)
    mouse(page).down()
    mouse(page).move(*stop, steps=4)
    mouse(page).up()
    if key:
        keyboard(page).up(key)
    page.settle()


def test_four_mib_on_top_of_22_gib_can_be_seen_and_hit(opened: OpenPage) -> None:
    snapshot = below()
    page = opened(snapshot)
    of = recording(mr.open(build.dump(snapshot)), 0, "requested")
    small = next(one.id for one in of.lives if one.bytes == 4 * MIB)
    assert not (page.picture().ids == small).any()
    box = stage(page)
    whole = page.picture().query["high"]
    # The wheel zooms around the pointer, which follows the middle of the 4 MiB.
    x = box["x"] + 0.45 * box["width"]
    for _ in range(10):
        query = page.picture().query
        part = (22 * GIB + 2 * MIB - query["low"]) / (query["high"] - query["low"])
        y = box["y"] + box["height"] * (1 - part)
        mouse(page).move(x, y)
        keyboard(page).down("Shift")
        mouse(page).wheel(0, -400)
        # The wheel's event arrives later than the keys'.
        page.tab.page.wait_for_function(  # type: ignore[attr-defined]
            "(high) => memreplay.picture().query.high !== high", arg=query["high"]
        )
        keyboard(page).up("Shift")
        page.settle()
    check_pixels(page, of)
    assert (page.picture().ids == small).sum() > 0.1 * page.picture().ids.size
    mouse(page).click(x, y)
    page.settle()
    assert page.state()["pin"] == small
    # The axis shows which part is seen, and the address has it.
    assert page.count(".over .seen") == 1
    assert "to 22," in page.text("[data-what=heights]")
    low, high = page.state()["low"], page.state()["high"]
    assert f"low={low}&high={high}" in page.tab.evaluate("() => location.hash")
    # Dragging the axis, or j and k, scrolls; the drag moves no other axis.
    drag(page, (box["x"] - 30, y), (box["x"] - 30, y + 40), "")
    assert page.state()["low"] > low
    assert page.state()["from"] is None
    page.tab.press("j")
    page.settle()
    assert page.state()["high"] < high
    check_pixels(page, of)
    page.tab.press("0")
    page.settle()
    assert page.count("[data-what=heights]") == 0
    assert page.picture().query["high"] == whole
    # One press of v fits the selected allocation, another one shows the whole stack again.
    page.set(at=1, pin=small)
    for _ in range(2):
        page.tab.press("v")
        page.settle()
        column = page.picture().ids[:, page.picture().ids.shape[1] // 4]
        assert 0.4 < (column == small).mean() < 0.6
        page.tab.press("v")
        page.settle()
        assert page.picture().query["high"] == whole
    # Without a selection, it fits what changes in the visible part.
    page.set(pin=None, **{"from": 0, "to": 4})
    page.tab.press("v")
    page.settle()
    assert (page.state()["low"], page.state()["high"]) == (22 * GIB - 34 * MIB, whole_above(of))
    # A double click on the axis does the same.
    fitted = page.state()
    mouse(page).dblclick(box["x"] - 30, box["y"] + 50)
    page.settle()
    assert page.state() == {**fitted, "low": None, "high": None}
    mouse(page).dblclick(box["x"] - 30, box["y"] + 50)
    page.settle()
    assert page.state() == fitted
    # e and E zoom in steps.
    for key, times in (("e", 0.5), ("E", 1)):
        page.tab.press(key)
        page.settle()
        found = page.picture().query
        assert found["high"] - found["low"] == pytest.approx(times * 136 * MIB, rel=0.02)


def test_box_zoom(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    of = recording(mr.open(EXAMPLE), 0, "requested")
    box, query = stage(page), page.picture().query
    start = (box["x"] + box["width"] / 4, box["y"] + box["height"] / 4)
    stop = (box["x"] + box["width"] / 2, box["y"] + box["height"] * 3 / 4)
    for key, mode in (("Alt", False), ("", True)):
        page.tab.press("0")
        if mode:
            page.tab.press("z")
        page.settle()
        drag(page, start, stop, key)
        found = page.picture().query
        moments = query["span"]["to"]
        assert found["span"]["from"] == pytest.approx(moments / 4, abs=0.01 * moments)
        assert found["span"]["to"] == pytest.approx(moments / 2, abs=0.01 * moments)
        assert found["low"] == pytest.approx(query["high"] / 4, abs=0.01 * query["high"])
        assert found["high"] == pytest.approx(query["high"] * 3 / 4, abs=0.01 * query["high"])
        check_pixels(page, of)
    assert page.state()["tab"] == "holders"


def test_carried_over_memory_can_be_hidden(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    snap = mr.open(EXAMPLE)
    replay = snap.replay(0)
    shown = page.picture().query["high"]
    page.tab.press("c")
    page.settle()
    assert page.state()["carried"] == "hidden"
    picture = page.picture()
    assert picture.query["high"] < shown
    # The stack is the same without the allocations that were carried over.
    of = recording(snap, 0, "requested")
    rest = [one._replace(bytes=0) if one.id < replay.carried_blocks else one for one in of.lives]
    made_since = Recording(rest, of.events, of.times)
    assert picture.query["high"] == pytest.approx(1.04 * max(usage(made_since)))
    rows, moments = paint(made_since, view_of(picture))
    seen = np.array(moments) >= 0
    assert picture.moments[seen].tolist() == np.array(moments)[seen].tolist()
    assert np.array_equal(picture.ids, np.array(rows, dtype=np.int32))
    # The legend adds up to what was allocated since the recording began.
    moment = page.moment()
    live = [one for one in of.lives if one.begin <= moment < one.end]
    made = sum(one.bytes for one in live if one.id >= replay.carried_blocks)
    bytes_ = page.tab.evaluate(
        "() => [...document.querySelectorAll('[data-what=legend-bytes]')]"
        ".map((one) => Number(one.dataset.bytes))"
    )
    assert sum(bytes_) == made
    assert "without the 1.4 GiB carried over" in page.text("[data-what=without]")
    assert page.count(".over .reserved") == 0
    page.tab.press("c")
    page.settle()
    assert page.picture().query["high"] == shown


def neighbours_differ(page: Viewed, snap: mr.Snapshot) -> None:
    """Check allocations that are next to each other in the stack, not only in the picture."""
    picture = page.picture(drawn=True)
    assert picture.query["colour"]["way"] == "allocation"
    colours = picture.drawn[..., :3].astype(int)
    of = recording(snap, 0, "requested")
    checked = 0
    for x in range(0, picture.ids.shape[1], 7):
        ids = picture.ids[:, x]
        moment = int(picture.moments[x])
        live = [one.id for one in of.lives if one.begin <= moment < one.end and one.bytes]
        above = dict(pairwise(live))
        for y in np.flatnonzero((ids[1:-1] != ids[2:]) & (ids[1:-1] >= 0) & (ids[2:] >= 0)) + 1:
            # Others between the two may be too thin to be seen.
            if above.get(int(ids[y + 1])) == ids[y]:
                checked += 1
                assert (colours[y, x] != colours[y + 1, x]).any(), (x, y)
    assert checked > 20


def test_colour_by_allocation(opened: OpenPage) -> None:
    """It's the default if a single category fills the picture, unless the link has a key."""
    page = opened(EXAMPLE)
    assert page.picture().query["colour"]["way"] == "category"
    page.set(colour="allocation", low=GIB * 3 // 2, high=2 * GIB)
    neighbours_differ(page, mr.open(EXAMPLE))
    assert "colour=allocation" in page.tab.evaluate("() => location.hash")
    assert "One colour per allocation" in page.text("[data-what=by-allocation]")
    made = build.SnapshotBuilder()
    for i in range(40):
        made.alloc(0x10_0000 * (i + 1), (i % 7 + 1) * MIB, frames=[STEP, MAIN])
        if i % 3 == 2:
            made.free(0x10_0000 * (i - 1), ((i - 2) % 7 + 1) * MIB, frames=[STEP, MAIN])
    snapshot = made.build()
    neighbours_differ(opened(snapshot), mr.open(build.dump(snapshot)))
    assert opened(snapshot, "colour=file").picture().query["colour"]["way"] == "file"


def test_compared_pictures_show_the_same_bytes(opened: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "both.html"
    mr.open(EXAMPLE).view(mr.open(DEEPER)).save(str(path))
    page = opened(path)
    second = page.tab.page.locator("[data-what=picture]").nth(1)  # type: ignore[attr-defined]
    second.hover(position={"x": 300, "y": 40})
    keyboard(page).down("Shift")
    mouse(page).wheel(0, -300)
    page.tab.page.wait_for_function(  # type: ignore[attr-defined]
        "() => document.querySelectorAll('.over .seen').length === 2"
    )
    keyboard(page).up("Shift")
    page.settle()
    assert page.state()["high"] - page.state()["low"] < page.picture().query["high"]
    page.tab.evaluate("() => document.querySelectorAll('[data-what=heights]')[1].click()")
    page.settle()
    assert page.count(".over .seen") == 0
