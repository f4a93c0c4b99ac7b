"""The page fits the window, from a telephone's width on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import ROOT
from tests.web.app import App

pytestmark = pytest.mark.browser

EXAMPLES = ROOT / "examples"
ROOM = """() => {
  const text = document.getElementById('text');
  return [document.documentElement.scrollWidth, text.scrollWidth - text.clientWidth];
}"""


@pytest.fixture
def narrow(empty: App) -> Iterator[App]:
    """Return the page, as narrow as a telephone."""
    empty.tab.resize(420, 800)
    yield empty
    empty.tab.resize(1280, 800)


@pytest.mark.parametrize("tab", ["Report", "Peak", "Timeline", "Out of memory", "Fragmentation"])
def test_text_fits_a_narrow_window(narrow: App, tab: str) -> None:
    narrow.open(EXAMPLES / "serving_oom.pkl.gz")
    narrow.press(tab)
    assert narrow.columns == 60
    assert narrow.tab.evaluate(ROOM) == [420, 0]


def test_wide_window_has_text_of_the_usual_size(narrow: App) -> None:
    narrow.open(EXAMPLES / "serving_oom.pkl.gz")
    narrow.press("Report")
    size = "() => parseFloat(getComputedStyle(document.getElementById('text')).fontSize)"
    assert 9 < narrow.tab.evaluate(size) < 12
    narrow.tab.resize(1280, 800)
    narrow.press("Peak")
    assert narrow.tab.evaluate(size) == 13


WIDTHS = """() => {
  const range = document.createRange();
  const widths = [...document.querySelectorAll('#text .dots')].map((one) => {
    return one.getBoundingClientRect().width / one.textContent.length;
  });
  const text = document.getElementById('text').firstChild;
  range.setStart(text, 0);
  range.setEnd(text, 10);
  return [range.getBoundingClientRect().width / 10, Math.min(...widths), Math.max(...widths)];
}"""


@pytest.mark.parametrize("width", [420, 1280])
def test_dots_are_as_wide_as_letters(narrow: App, width: int) -> None:
    narrow.tab.resize(width, 800)
    narrow.open(EXAMPLES / "transformer_step.pkl.gz")
    narrow.press("Timeline")
    letter, least, most = narrow.tab.evaluate(WIDTHS)
    assert least == pytest.approx(letter, abs=0.02)
    assert most == pytest.approx(letter, abs=0.02)


def test_tabs_of_a_snapshot_fit_a_row(narrow: App) -> None:
    narrow.tab.resize(1280, 800)
    narrow.open(EXAMPLES / "transformer_step.pkl.gz")
    tops = "() => [...document.querySelectorAll('[role=tab]')].map((one) => one.offsetTop)"
    assert len(set(narrow.tab.evaluate(tops))) == 1


def test_ranks_fit_a_narrow_window(narrow: App) -> None:
    narrow.open(*sorted((EXAMPLES / "fsdp_odd_ranks").iterdir()))
    narrow.press("Ranks")
    assert narrow.tab.evaluate(ROOM) == [420, 0]


def test_welcome_has_a_margin(narrow: App) -> None:
    box = narrow.page.locator("#welcome").bounding_box()
    assert box["x"] >= 10
    assert box["x"] + box["width"] <= 410
