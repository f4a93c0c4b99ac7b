"""A page of a program that ran out of memory opens at the failed request and explains it."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.commands.oom.text import cause_name, cause_text, remedy_text
from memreplay.render.units import size
from tests import build
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.expected import moment_of
from tests.browser.test_keyboard import press
from tests.browser.viewed import Viewed
from tests.build import SnapshotBuilder

pytestmark = pytest.mark.browser

SERVING = next(one for one in EXAMPLES if one.name.startswith("serving_oom"))
# Returns where the cursor is in the picture: 0 is its left edge, 1 its right edge.
CURSOR = """() => {
  const line = document.querySelector('.picture .cursor line');
  if (!line) return null;
  const { left, width } = document.querySelector('.picture .stack').getBoundingClientRect();
  return (line.getBoundingClientRect().left - left) / width;
}"""
# Returns the point of the marks' lane below the mark in the picture.
LANE = """() => {
  const mark = document.querySelector('.oom-mark').getBoundingClientRect();
  const lanes = document.querySelector('.mr-lanes canvas').getBoundingClientRect();
  return [mark.left + mark.width / 2, lanes.top + 6];
}"""


def failure_moment(page: Viewed) -> int:
    found = page.tab.evaluate("() => document.querySelector('.failure').dataset.moment")
    return int(found)


def test_page_opens_at_the_failed_request(opened: OpenPage) -> None:
    snap = mr.open(SERVING)
    (told,) = mr.oom(snap, oom=0).devices
    moments = [moment_of(snap.replay(), one.event_index) for one in told.ooms]
    page = opened(SERVING)
    first, second = told.ooms
    assert page.moment() == moments[0]
    said = " ".join(page.text(".failure").split())
    for words in (
        f"out of memory: {size(first.request_bytes)} failed at model.py:21, event",
        f": {cause_name(first.cause)}",
        cause_text(first),
        f"{size(first.cached_bytes)} was cached",
        *(remedy_text(one, first) for one in first.remedies),
    ):
        assert words in said
    # Both marks are at the same place, so one mark has their number and both names.
    assert page.text(".oom-mark") == "2"
    names = page.tab.evaluate("() => document.querySelector('.oom-mark').title").split("\n")
    assert [one.split(",")[0] for one in names] == [
        f"out of memory: {size(one.request_bytes)} failed" for one in told.ooms
    ]
    # So does the lane below, which also has a snapshot there.
    x, y = page.tab.evaluate(LANE)
    page.tab.page.mouse.move(x, y)  # type: ignore[attr-defined]
    page.settle()
    tip = page.text(".mr-tip")
    assert tip.startswith("3 marks")
    for one in told.ooms:
        assert f"{size(one.request_bytes)} failed" in tip
        assert f"event {one.event_index:,}" in tip

    # The second one is a button away, and the peak is another.
    page.tab.evaluate("() => document.querySelector('.failure [title^=Next]').click()")
    page.settle()
    assert (page.moment(), failure_moment(page)) == (moments[1], moments[1])
    said = " ".join(page.text(".failure").split())
    assert f"{size(second.cached_bytes)} was cached" in said
    assert "--oom 2" in said
    page.tab.evaluate("() => document.querySelector('.figures button').click()")
    page.settle()
    peak = moment_of(snap.replay(), snap.replay().peak.event_index)
    assert page.moment() == peak
    # A link to the peak shows the peak.
    assert opened(SERVING, page.tab.evaluate("() => location.hash.slice(1)")).moment() == peak


def test_zooming_keeps_the_cursor_in_view(opened: OpenPage) -> None:
    page = opened(SERVING)
    for axis in ("event", "time"):
        page.set(axis=axis)
        press(page, "0", "o", "o")
        for _ in range(16):
            press(page, "+")
            at = page.tab.evaluate(CURSOR)
            assert at is not None, axis
            assert 0 <= at <= 1, axis
    page.set(axis="event", **{"from": None, "to": None})
    page.tab.evaluate("""() => [...document.querySelectorAll('.failure button')].at(-1).click()""")
    page.settle()
    assert 0 < page.tab.evaluate(CURSOR) < 1
    assert page.count(".oom-mark") == 2


def test_card_is_a_line_if_the_peak_is_near_it(opened: OpenPage) -> None:
    page = opened(SERVING)
    card = mr.oom(mr.open(SERVING)).devices[0].total_memory_bytes or 0
    assert page.text("[data-what=card]") == f"card of at least {size(card)}"
    line = page.tab.evaluate("() => document.querySelector('.over .card').textContent")
    assert line == f"card: at least {size(card)}"
    assert page.picture().query["high"] > card
    # A card of more than twice the peak is only in the header.
    page = opened(next(one for one in EXAMPLES if one.name.startswith("recorded_gpt")))
    assert page.text("[data-what=card]") == "card of 22.0 GiB"
    assert page.count(".over .card") == 0


def test_reasons_stand_beside_the_verdict(opened: OpenPage) -> None:
    made = SnapshotBuilder().alloc(0x1000, 64).segment_free(0x800000, 2 << 20)
    page = opened(build.dump(made.build()))
    report = page.tab.evaluate(
        "() => JSON.parse(document.getElementById('memreplay-page').textContent)"
        ".snapshots[0].report"
    )
    assert report["reasons"]["0"].startswith("Not trustworthy: ")
    assert page.text("[data-what=doubts]") == report["reasons"]["0"]
    page.set(measure="active")
    assert page.text("[data-what=doubts]").startswith("active bytes: Not trustworthy: ")
    assert "inexact" in page.text(".spare")
