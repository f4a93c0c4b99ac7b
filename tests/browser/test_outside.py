"""Memory outside PyTorch's allocator: the page shows the samples' bytes, and bands as high."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.render.units import size
from memreplay.snapshot.recorded_memory import CardSamples, card_samples
from tests import build
from tests.browser.conftest import OpenPage
from tests.browser.viewed import Viewed
from tests.unit.export.page.test_outside import recorded
from tests.unit.snapshot.test_recorded_memory import GIB, NOW, SECOND

pytestmark = pytest.mark.browser

EVENTS = [NOW + n * SECOND for n in range(20)]
SAMPLES = [NOW - 7, NOW + 2 * SECOND, NOW + 5_400_000, NOW + 12 * SECOND + 3]
OTHERS: list[int | None] = [None, 33 * GIB, 34 * GIB + 1, 0]
LEGEND = """() => [...document.querySelectorAll('[data-what=outside] li')].map((one) => [
  one.querySelector('.name').textContent,
  Number(one.querySelector('[data-bytes]').dataset.bytes),
])"""
PATHS = """() => [...document.querySelectorAll('.over > path[fill]')].map((one) =>
  one.getAttribute('d'))"""
LEFT = 72


@pytest.fixture(scope="module")
def data() -> bytes:
    return build.dump(recorded(EVENTS, SAMPLES, OTHERS))


@pytest.fixture(scope="module")
def card(data: bytes) -> CardSamples:
    (found,) = card_samples(mr.open(data))
    return found


@pytest.fixture
def page(opened: OpenPage, data: bytes, tmp_path: Path) -> Viewed:
    path = tmp_path / "snap.html"
    mr.view(mr.open(data)).save(str(path))
    return opened(path)


def parts(card: CardSamples, at: int) -> dict[str, int]:
    other = card.other_bytes[at]
    outside, free = card.outside(at), card.free_bytes[at]
    if other is None:
        return {"outside PyTorch, with other processes": outside, "free": free}
    return {"other processes": other, "outside PyTorch": outside, "free": free}


def test_bytes_equal_the_samples(page: Viewed, card: CardSamples) -> None:
    for moment in range(len(EVENTS) + 1):
        page.set(at=moment)
        at = card.closest(EVENTS[max(moment - 1, 0)])
        assert dict(page.tab.evaluate(LEGEND)) == parts(card, at), moment
    assert "sampled 7.000 s earlier" in page.text("[data-what=outside]")


def test_tooltip_says_who_used_the_card(page: Viewed, card: CardSamples) -> None:
    page.set(card="whole")
    tab: Any = page.tab
    tab.page.hover(".picture", position={"x": LEFT + 300, "y": 60})
    tab.page.wait_for_selector(".tooltip [data-what=moment]")
    said = " ".join(page.text(".tooltip").split())
    moment = int(re.search(r"at event (\d+)", said)[1]) + 1  # type: ignore[index]
    at = card.closest(EVENTS[moment - 1])
    for name, n in parts(card, at).items():
        assert f"{name} {size(n)}" in said
    assert re.search(r"sampled .* (earlier|later)|sampled then", said)


@pytest.mark.parametrize("axis", ["event", "time"])
def test_bands_hang_from_the_card(page: Viewed, card: CardSamples, axis: str) -> None:
    page.set(axis=axis)
    assert page.picture().query["high"] < card.total_bytes
    page.tab.evaluate("() => document.querySelector('[data-what=outside] button').click()")
    page.settle()
    assert page.state()["card"] == "whole"
    query = page.picture().query
    assert query["high"] > card.total_bytes
    box = page.tab.evaluate(
        "() => (({ width, height }) => [width, height])"
        "(document.querySelector('canvas.stack').getBoundingClientRect())"
    )
    found = [
        [tuple(map(float, one.split(","))) for one in path[1:].split(" ")]
        for path in page.tab.evaluate(PATHS)
    ]
    clock = [NOW, *EVENTS]
    for at in range(len(SAMPLES)):
        # Each sample's upper and lower edges are in order, and from the back.
        edges = [
            (points[2 * at : 2 * at + 2], points[::-1][2 * at : 2 * at + 2]) for points in found
        ]
        other, outside = card.other_bytes[at] or 0, card.outside(at)
        wanted = [(0, other), (other, other + outside)]
        for (upper, lower), (high, low) in zip(edges, wanted, strict=True):
            for line, n in ((upper, high), (lower, low)):
                y = box[1] * (1 - (card.total_bytes - n) / query["high"])
                assert [one[1] for one in line] == pytest.approx([y, y], abs=0.2)
        # Moments whose closest sample this is are below the band.
        begin, end = (point[0] for point in edges[0][0])
        whole = query["span"]["to"] - query["span"]["from"]
        for moment, time in enumerate(clock):
            x = moment + 0.5 if axis == "event" else time - NOW
            px = LEFT + (x - query["span"]["from"]) / whole * box[0]
            if card.closest(time) == at:
                assert begin - 0.1 <= px <= end + 0.1, (at, moment)


def test_saved_pictures_have_the_bands(page: Viewed) -> None:
    page.set(card="whole")
    tab: Any = page.tab
    with tab.page.expect_download() as download:
        tab.page.click("button:text-is('SVG')")
    text = Path(download.value.path()).read_text()
    assert text.count('fill="rgb(179, 183, 191)"') == 2  # the band and its row in the legend
    assert "other processes" in text


def test_pages_without_samples_have_no_bands(opened: OpenPage) -> None:
    page = opened(build.SnapshotBuilder().alloc(4096, 512).build())
    assert page.count("[data-what=outside]") == page.count(".over > path[fill]") == 0


PIXELS = """(colours) => {
  const canvas = document.querySelector('.overview canvas');
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement('canvas'), { width, height });
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  const ratio = width / canvas.getBoundingClientRect().width;
  return [...Array(19).keys()].map((at) => {
    const x = Math.round(72 * ratio + ((at + 0.7) / 21) * (width - 72 * ratio));
    const column = [...Array(height).keys()].map((y) =>
      [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)].join());
    return colours.map((colour) => column.filter((one) => one === colour).length / ratio);
  });
}"""


def test_overview_has_the_bands(page: Viewed, card: CardSamples) -> None:
    page.set(axis="event")
    page.settle()
    colours = ["179,183,191", "170,68,136"]
    assert all(one == [0, 0] for one in page.tab.evaluate(PIXELS, colours))  # the card is too large
    page.set(card="whole")
    page.settle()
    (tall,) = page.tab.evaluate(
        "() => [document.querySelector('.overview canvas').getBoundingClientRect().height - 11]"
    )
    for moment, found in enumerate(page.tab.evaluate(PIXELS, colours)):
        at = card.closest([NOW, *EVENTS][moment])
        for seen, n in zip(found, (card.other_bytes[at] or 0, card.outside(at)), strict=True):
            assert seen == pytest.approx(n / card.total_bytes / 1.08 * tall, abs=3), moment
