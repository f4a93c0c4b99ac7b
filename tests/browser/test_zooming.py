"""The cursor stays in the picture, however it's zoomed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.test_stack import DEEPER, EXAMPLE, drag, mouse, stage
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

OOM = next(one for one in EXAMPLES if one.name.startswith("serving_oom"))
OVERVIEW = "() => document.querySelector('.overview canvas').getBoundingClientRect().toJSON()"
SPAN = "(which) => memreplay.picture(which).query.span"
LEFT = 72


def inside(page: Viewed, which: int = 0) -> bool:
    """Check that a cursor's moment is visible, and the line that shows it."""
    page.settle()
    axis, place = page.state()["axis"], {"snapshot": which, "device": page.state()["device"]}
    at = page.tab.evaluate(
        "(one) => Number(document.querySelectorAll('[data-what=cursors]')[one].dataset.at)", which
    )
    x, end = (page.engine("xOf", place, axis, moment) for moment in (at, at + 1))
    span = page.tab.evaluate(SPAN, which)
    lines = page.tab.evaluate(
        "(one) => document.querySelectorAll('.picture')[one]"
        ".querySelectorAll('.over .cursor').length",
        which,
    )
    return bool(x < span["to"] and end > span["from"]) and lines == 1


def wheel(page: Viewed, part: float, by: float, box: dict[str, float] | None = None) -> None:
    """Turn the wheel at a part of the picture's width, and wait until it's zoomed."""
    box = box or stage(page)
    before = page.tab.evaluate(SPAN, 0)
    mouse(page).move(box["x"] + part * box["width"], box["y"] + box["height"] / 2)
    mouse(page).wheel(0, by)
    page.tab.page.wait_for_function(  # type: ignore[attr-defined]
        "([from, to]) => { const now = memreplay.picture(0).query.span;"
        " return now.to - now.from !== to - from; }",
        arg=[before["from"], before["to"]],
    )
    page.settle()


def under(page: Viewed, part: float) -> int:
    """Return the moment at a part of the picture's width."""
    picture = page.picture()
    return int(picture.moments[int(part * len(picture.moments))])


@pytest.mark.parametrize("axis", ["event", "time"])
def test_cursor_stays_in_the_picture(opened: OpenPage, axis: str) -> None:
    page = opened(EXAMPLE, f"axis={axis}")
    start = page.moment()
    # The wheel zooms around the pointer. The cursor stays where it is as long as it's visible.
    wheel(page, 0.3, -100)
    assert page.moment() == start
    for _ in range(6):
        wheel(page, 0.7, -300)
        assert inside(page)
    assert page.moment() != start
    assert abs(page.moment() - under(page, 0.7)) < 0.4 * len(page.picture().moments)
    # It doesn't follow the view otherwise, but comes back with the next zoom.
    at = page.moment()
    page.tab.press("PageUp")
    page.settle()
    assert page.moment() == at
    for zoom in ("+", "-"):
        page.set(at=start)
        page.tab.press(zoom)
        assert inside(page)
    # A box, a part of the overview, or an annotation: the cursor goes to its highest moment.
    page.set(at=start, **{"from": None, "to": None})
    box = stage(page)
    y = box["y"] + 10
    drag(page, (box["x"] + 0.6 * box["width"], y), (box["x"] + 0.8 * box["width"], y + 200), "Alt")
    assert inside(page)
    highest(page)
    page.set(at=start, low=None, high=None, **{"from": None, "to": None})
    over = page.tab.evaluate(OVERVIEW)
    wide = over["width"] - LEFT
    x, y = over["x"] + LEFT, over["y"] + 40
    drag(page, (x + 0.4 * wide, y), (x + 0.55 * wide, y), "")
    assert inside(page)
    highest(page)
    # Moving the visible part is no zoom.
    at = page.moment()
    drag(page, (x + 0.5 * wide, y), (x + 0.8 * wide, y), "")
    assert page.moment() == at
    # Its edges zoom.
    drag(page, (x + 0.85 * wide, y), (x + 0.82 * wide, y), "")
    assert inside(page)
    # A link has the cursor's event.
    event = page.moment() - 1
    assert f"at={event}" in page.tab.evaluate("() => location.hash")


def highest(page: Viewed) -> None:
    """Check that the cursor is at the highest moment of the visible part."""
    place = {"snapshot": 0, "device": 0}
    span, axis = page.tab.evaluate(SPAN, 0), page.state()["axis"]
    ends = [page.engine("momentAt", place, axis, span[one]) for one in ("from", "to")]
    series = mr.open(EXAMPLE).replay(0).measure("requested")
    most = max(series.bytes_at(at - 1) for at in range(ends[0], ends[1]))
    assert page.bytes("cursor-bytes") == most


def test_pinching_a_touchpad_zooms_as_fast_as_a_wheel(opened: OpenPage) -> None:
    """Browsers report it as small movements of a wheel with Ctrl."""
    page = opened(EXAMPLE)
    lengths = []
    for by, ctrl in ((-80, False), (-10, True)):
        page.set(**{"from": None, "to": None})
        page.tab.evaluate(
            """([deltaY, ctrlKey]) => {
              const one = document.querySelector('.picture');
              const { left, width } = one.getBoundingClientRect();
              const at = { clientX: left + width / 2, bubbles: true, cancelable: true };
              one.dispatchEvent(new WheelEvent('wheel', { ...at, deltaY, ctrlKey }));
            }""",
            [by, ctrl],
        )
        page.settle()
        span = page.tab.evaluate(SPAN, 0)
        lengths.append(span["to"] - span["from"])
    assert lengths[0] == pytest.approx(lengths[1])


def test_failed_request_stays_visible(opened: OpenPage) -> None:
    page = opened(OOM)
    at = page.moment()
    for _ in range(12):
        page.tab.press("+")
        assert inside(page)
    assert page.moment() == at
    assert page.count(".oom-mark") >= 1
    for _ in range(12):
        page.tab.press("-")
    assert page.moment() == at


def test_zoom_in_either_picture_keeps_both_cursors(opened: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "both.html"
    mr.open(EXAMPLE).view(mr.open(DEEPER)).save(str(path))
    page = opened(path)
    second: dict[str, Any] = page.tab.evaluate(
        "() => document.querySelectorAll('[data-what=picture]')[1].getBoundingClientRect().toJSON()"
    )
    for _ in range(5):
        wheel(page, 0.8, -300, second)
    # The zoom doesn't choose the snapshot under the pointer.
    assert page.state()["snapshot"] == 0
    assert inside(page)
    assert inside(page, 1)
