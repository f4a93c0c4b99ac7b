"""The URL contains the view's state, so a link or a reload shows the same view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import memreplay as mr
from tests import build
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.test_layout import wide
from tests.views import everything

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("transformer_step"))
# States in the URL: each field by itself, and all fields together.
FIELDS = {
    "measure": "active",
    "axis": "time",
    "from": 1000.5,
    "to": 2000,
    "at": 1234,
    "other": 77,
    "tab": "flame",
    "by": "file",
    "colour": "module",
    "search": "a.*b & c=d #é训\\s+",
    "root": "innermost",
    "frames": "all",
    "low": 4096,
    "high": 1 << 30,
    "carried": "hidden",
    "zoom": "flame.3.-2",
    "pin": 12,
    "group": 3,
    "address": "0x7f00",
}


def test_state_survives_a_reload(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    start = page.state()
    half = dict(list(FIELDS.items())[::2])
    for one in ({}, half, FIELDS):
        page.set(**{**start, **one})
        before = page.state()
        assert {key: before[key] for key in one} == one
        page.tab.page.reload()  # type: ignore[attr-defined]
        page.ready()
        assert page.state() == before


def test_link_shows_the_same_picture_and_numbers(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    page.set(measure="held", at=4321, by="file", colour="file", **{"from": 3000, "to": 5000})
    shown, numbers = page.picture(drawn=True), page.seen([{}])
    fragment = page.tab.evaluate("() => location.hash").removeprefix("#")
    other = opened(EXAMPLE, fragment)
    again = other.picture(drawn=True)
    assert np.array_equal(again.ids, shown.ids)
    assert np.array_equal(again.drawn, shown.drawn)
    assert other.seen([{}]) == numbers


@pytest.mark.parametrize(
    "fragment",
    [
        "measure=nonsense&tab=<script>&by=&colour=1",
        "at=NaN&from=Infinity&to=-1&pin=1e99&group=-5",
        "at=1.5&other=-3&from=7&to=2&device=0.5&snapshot=-1",
        "__proto__=1&constructor=2&toString=3",
        "%E0%A4%A&=&&==",
        "side=-1&tall=-5&enlarged=-9&file=99&tab=file&zoom=flame.x.NaN&low=9&high=-9",
        "side=1e9&tall=1e12&enlarged=1e9&tab=allocator&low=1e15&high=1e300",
        "search=" + "(" * 5000,
    ],
)
def test_broken_links_show_as_much_as_possible(opened: OpenPage, fragment: str) -> None:
    snapshot = everything()
    page = opened(snapshot, fragment)
    assert page.bytes("peak-bytes") == mr.open(build.dump(snapshot)).replay(0).peak.bytes
    assert "cannot be shown" not in page.text()
    assert wide(page) <= 0
    heights = page.tab.evaluate(
        "() => [...document.querySelectorAll('.picture, .side')].map((one) => one.clientHeight)"
    )
    assert all(80 <= height <= 2500 for height in heights)


def test_url_stays_short(opened: OpenPage, example: Path) -> None:
    """The URL leaves out default values."""
    page = opened(example)
    assert page.tab.evaluate("() => location.hash") == ""


def test_page_follows_url_changes(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    page.tab.evaluate("() => { location.hash = '#at=99&measure=active'; }")
    page.settle()
    # The URL has the event's number, as the page shows it.
    assert page.moment() == 100
    assert "event 99" in page.text(".figures")
    assert page.state()["measure"] == "active"
