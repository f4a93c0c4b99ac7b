"""Reserved memory is shown as segments, and the segment map shows all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import memreplay as mr
from tests.browser import expected
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("serving"))
GRAPHS = next(one for one in EXAMPLES if one.name.startswith("cuda_graphs"))
LEGEND = """() => [...document.querySelectorAll('.legend li')].map((one) => [
  one.querySelector('.name').textContent,
  Number(one.querySelector('[data-what=segment-bytes]').dataset.bytes),
])"""


def test_the_picture_of_reserved_memory(opened: OpenPage) -> None:
    snap = mr.open(EXAMPLE)
    page = opened(EXAMPLE, f"measure=reserved&at={snap.replay(0).peak.event_index}")
    moment = page.moment()
    wanted = expected.bytes_at(snap, 0, moment)
    by = {}
    for key in ("pool", "size", "state"):
        page.set(segments=key)
        by[key] = dict(page.tab.evaluate(LEGEND))
        assert sum(by[key].values()) == wanted["reserved"] == page.bytes("cursor-bytes")
    assert by["pool"] == {"default pool": wanted["reserved"]}
    assert by["size"].keys() == {"large segments", "small segments"}
    assert by["state"]["active"] == wanted["active"]
    # Each column is as high as reserved memory.
    picture = page.picture()
    column = int(picture.ids.shape[1] * 0.5)
    reserved = expected.bytes_at(snap, 0, int(picture.moments[column]))["reserved"]
    rows = picture.ids.shape[0]
    assert (picture.ids[:, column] >= 0).sum() == pytest.approx(
        reserved / picture.query["high"] * rows, abs=1
    )
    assert picture.query["measure"] == "reserved"
    tab: Any = page.tab
    tab.page.hover(".picture", position={"x": 600, "y": 200})
    tab.page.wait_for_selector(".tooltip [data-what=segment]")
    said = page.text(".tooltip")
    assert re.search(r"address\s+0x[0-9a-f]+\s", said)
    for word in ("default pool, stream 0", "active", "free", "reserved", "released"):
        assert word in said
    tab.page.mouse.down()
    tab.page.mouse.up()
    page.settle()
    assert (page.state()["pin"], page.state()["at"] is None) == (None, False)


def test_the_segment_map(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "tab=allocator")
    assert heights(page)["below"] > 0.9 * 800
    svg = saved(page, "SVG")
    drawn = float(re.match(r'<svg [^>]* height="(\d+)"', svg)[1])  # type: ignore[index]
    assert drawn == heights(page)["all"] > heights(page)["seen"]
    assert svg.count(">20.0 MiB</text>") > 10
    assert "<image" not in svg
    page.tab.evaluate("() => document.querySelector('.mr-blocks canvas').focus()")
    page.tab.press("+")
    page.settle()
    assert page.state()["enlarged"] == 1
    assert page.state()["from"] is None
    assert heights(page)["all"] > drawn
    page.set(map="all")
    assert heights(page)["all"] == heights(page)["seen"]
    # All segments are in the picture.
    count = int(re.search(r"in (\d+) segments", page.text(".toolbar"))[1])  # type: ignore[index]
    assert len(re.findall(r">[\d.]+ MiB</text>", saved(page, "SVG"))) >= count
    tab: Any = page.tab
    tab.page.hover(".mr-blocks canvas", position={"x": 120, "y": 60})
    tab.page.wait_for_selector(".mr-tip")
    assert "segment" in page.text(".mr-tip")


def test_the_map_has_the_colours_of_the_legend(opened: OpenPage) -> None:
    page = opened(GRAPHS, "measure=reserved&tab=allocator")
    for key in ("pool", "size", "state"):
        page.set(segments=key)
        colours = page.tab.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('.legend li')].map((one) => [
              one.querySelector('.name').innerText,
              one.querySelector('.swatch').style.background,
            ]))"""
        )
        wanted = {_hex(colour) for name, colour in colours.items() if name != "free"}
        svg = saved(page, "SVG")
        # Other colours are those of free memory and text.
        fills = set(re.findall(r'<rect [^>]*fill="(#\w{6})"', svg))
        assert wanted <= fills
        assert len(fills - wanted) <= 2
        assert len(wanted) == {"pool": 2, "size": 2, "state": 1}[key]


def _hex(colour: str) -> str:
    return "#" + "".join(f"{int(one):02x}" for one in re.findall(r"\d+", colour))


def heights(page: Viewed) -> dict[str, float]:
    """Return the heights of the panel, of the map's visible part and of the whole map."""
    found: dict[str, float] = page.tab.evaluate(
        """() => {
          const map = document.querySelector('.mr-blocks .mr-scroll');
          const below = document.querySelector('.below').getBoundingClientRect().height;
          return { below, seen: map.clientHeight, all: map.scrollHeight };
        }"""
    )
    return found


def saved(page: Viewed, kind: str) -> str:
    """Return the file that a button of the toolbar saves."""
    tab: Any = page.tab
    with tab.page.expect_download() as file:
        tab.page.click(f".toolbar .copying button:text-is('{kind}')")
    return str(file.value.path().read_text())
