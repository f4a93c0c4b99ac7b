"""The overview answers under the pointer, its edges can be dragged, and the picture follows."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.expected import bytes_at
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("transformer_step"))
LEFT = 72
SAID = """() => {
  const box = document.querySelector('.overview [data-what=moment]');
  if (!box) return null;
  const names = [...box.querySelectorAll('dt')].map((one) => one.textContent);
  const values = [...box.querySelectorAll('dd')].map((one) => one.textContent);
  const pairs = names.map((name, i) => [name, values[i]]);
  return { moment: Number(box.dataset.moment), ...Object.fromEntries(pairs) };
}"""


class Plot:
    """The overview's plot, and the mouse on it."""

    def __init__(self, page: Viewed) -> None:
        self.page = page
        self.mouse: Any = page.tab.page.mouse  # type: ignore[attr-defined]
        box = page.tab.evaluate(
            "() => document.querySelector('.overview canvas').getBoundingClientRect().toJSON()"
        )
        self.left, self.width = box["x"] + LEFT, box["width"] - LEFT
        self.y = box["y"] + box["height"] / 2

    def go(self, part: float) -> None:
        """Move to a fraction of the recording."""
        self.mouse.move(self.left + part * self.width, self.y, steps=3)
        self.page.settle()

    def drag(self, start: float, stop: float) -> list[tuple[float, float]]:
        """Drag, and return the parts that the picture showed before and after the release."""
        self.go(start)
        self.mouse.down()
        self.go(stop)
        during = self.shown()
        self.mouse.up()
        self.page.settle()
        return [during, self.shown()]

    def shown(self) -> tuple[float, float]:
        span = self.page.picture().query["span"]
        return span["from"], span["to"]

    def cursor(self) -> str:
        found: str = self.page.tab.evaluate(
            "() => getComputedStyle(document.querySelector('.overview canvas')).cursor"
        )
        return found


def test_hover_says_what_there_was(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    plot, snap = Plot(page), mr.open(EXAMPLE)
    replay = snap.replay(0)
    for part in (0.2, 0.7):
        plot.go(part)
        said = page.tab.evaluate(SAID)
        moment = said["moment"]
        # The curve's highest moment in the pixel is the one that is seen.
        pixel = (replay.events + 1) / plot.width
        near = range(int(part * plot.width - 1) * int(pixel), int((part * plot.width + 2) * pixel))
        assert moment in near
        assert said["at"] == f"event {moment - 1:,}"
        assert said["in"].startswith("step 1" if part < 0.5 else "step 2")
        at = replay.time_us(moment - 1), replay.time_us(0)
        assert at[0] is not None
        assert at[1] is not None
        assert said["time"].startswith("+")
        for measure, bytes_ in bytes_at(snap, 0, moment).items():
            number, unit = said[measure].split()
            scale = 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)
            assert float(number) * scale == pytest.approx(bytes_, abs=scale * 0.051)
    # A click puts the cursor there.
    plot.mouse.down()
    plot.mouse.up()
    page.settle()
    assert page.moment() == moment


@pytest.mark.parametrize("axis", ["event", "time"])
def test_a_triangle_is_its_peak(opened: OpenPage, axis: str) -> None:
    """Also if the pointer is at its rim, where the curve is lower."""
    page = opened(EXAMPLE)
    page.set(axis=axis)
    plot, replay = Plot(page), mr.open(EXAMPLE).replay(0)
    first, last = replay.time_us(0), replay.time_us(replay.events - 1)
    assert first is not None
    assert last is not None
    plot.y = page.tab.evaluate(
        "() => document.querySelector('.overview canvas').getBoundingClientRect().y + 3"
    )
    peaks = replay.measure().peaks(12)
    before = next(peak for peak in peaks if peak.event_index < peaks[0].event_index)
    # By time, triangles of other peaks overlap.
    for peak in (peaks[0],) if axis == "time" else (peaks[0], before, peaks[-1]):
        moment, time = peak.event_index + 1, peak.time_us
        assert time is not None
        part = (moment + 0.5) / (replay.events + 1)
        if axis == "time":
            part = (time - first) / (last - first)
        for away in (-2, 2):
            plot.go(part + away / plot.width)
            assert page.tab.evaluate(SAID)["moment"] == moment
            plot.mouse.down()
            plot.mouse.up()
            page.settle()
            assert page.moment() == moment


def test_edges_drag_and_the_picture_follows(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    plot = Plot(page)
    all_ = plot.shown()[1]

    def near(found: tuple[float, float], start: float, stop: float) -> bool:
        return found == pytest.approx((start * all_, stop * all_), abs=0.01 * all_)

    for found in plot.drag(0.3, 0.5):
        assert near(found, 0.3, 0.5)
    for start, stop, left, right in (
        (0.5, 0.6, 0.3, 0.6),
        (0.3, 0.4, 0.4, 0.6),
        (0.4, 0.8, 0.6, 0.8),  # an edge that is dragged past the other one
        (0.7, 0.5, 0.4, 0.6),  # the middle moves all of it
    ):
        for found in plot.drag(start, stop):
            assert near(found, left, right), (start, stop, found)
    plot.go(0.6)
    assert plot.cursor() == "ew-resize"
    plot.go(0.5)
    assert plot.cursor() == "grab"
    plot.go(0.9)
    assert plot.cursor() == "crosshair"
    # A double click shows all of it again, with the cursor where it was.
    at = page.moment()
    plot.mouse.dblclick(plot.left + 0.9 * plot.width, plot.y)
    page.settle()
    assert plot.shown() == (0, all_)
    assert page.moment() == at
    # So does one on the picture, with the selection as it was.
    page.set(pin=7, **{"from": 100, "to": 900})
    plot.mouse.dblclick(plot.left + 0.9 * plot.width, plot.y + 250)
    page.settle()
    assert plot.shown() == (0, all_)
    assert (page.moment(), page.state()["pin"]) == (at, 7)


CUT = """() => [...document.querySelectorAll('.stage svg text')].filter((one) => {
    const [box, all] = [one, one.ownerSVGElement].map((each) => each.getBoundingClientRect());
    return box.left < all.left - 0.5 || box.right > all.right + 0.5;
  }).map((one) => one.textContent).concat(
    [...document.querySelectorAll('.tab-panel td, .tab-panel td span')].filter((one) =>
      one.children.length === 0 && /^[+-]?[\\d,.]+( \\w+|%)?$/.test(one.textContent)
        && one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0,
    ).map((one) => one.textContent))"""
LONGEST = """() => {
  const texts = document.createTreeWalker(
    document.querySelector('.tab-panel'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode;
    if (/^[\\d.]+ [KMG]iB$/.test(one.data)) one.data = '1000.0 MiB';
    if (/^[\\d.]+%$/.test(one.data)) one.data = '100.0%';
  }
}"""


@pytest.mark.parametrize("width", [1440, 1000])
def test_no_number_is_cut(opened: OpenPage, width: int) -> None:
    page = opened(EXAMPLE, viewport={"width": width, "height": 800})
    for view in ({}, {"axis": "time", "from": None, "to": None}, {"from": 11, "to": 47.5}):
        for tab in ("holders", "list", "between", "allocator"):
            page.set(tab=tab, other=100, **{"axis": "event", **view})
            page.tab.evaluate(LONGEST)
            assert page.tab.evaluate(CUT) == [], (view, tab)
