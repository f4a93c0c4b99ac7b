"""Panes can be resized and enlarged, and a picker chooses one of several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from memreplay.fleets.text import outlier_line
from memreplay.render.units import size
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.viewed import Viewed
from tests.conftest import ROOT

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("leaky"))
BOX = """(selector) => {
  const { width, height } = document.querySelector(selector).getBoundingClientRect();
  return [width, height];
}"""


def box(page: Viewed, selector: str) -> list[float]:
    found: list[float] = page.tab.evaluate(BOX, selector)
    return found


def drag(page: Viewed, selector: str, dx: float, dy: float) -> None:
    """Drag an element with the mouse."""
    browser: Any = page.tab.page  # type: ignore[attr-defined]
    at = browser.locator(selector).bounding_box()
    x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
    browser.mouse.move(x, y)
    browser.mouse.down()
    browser.mouse.move(x + dx / 2, y + dy / 2)
    browser.mouse.move(x + dx, y + dy)
    browser.mouse.up()
    page.settle()


def test_separators_resize_the_panes(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    width, height = box(page, ".side")[0], box(page, ".picture")[1]
    for kind, dx, dy in (("tall", 0, -60), ("side", -80, 0)):
        line = f".separator.of-{kind}"
        drag(page, line, dx, dy)
        assert box(page, ".picture")[1] == pytest.approx(height + dy, abs=1)
        assert box(page, ".side")[0] == pytest.approx(width - dx, abs=1)
        page.tab.page.focus(line)  # type: ignore[attr-defined]
        page.tab.press("ArrowDown" if dy else "ArrowLeft")
        page.settle()
        shown = box(page, ".picture")[1] if dy else box(page, ".side")[0]
        assert shown == pytest.approx(height + dy + 16 if dy else width - dx + 16, abs=1)
        said = page.tab.evaluate("(one) => document.querySelector(one).ariaValueNow", line)
        assert int(said) == pytest.approx(shown, abs=1)
        # A reload keeps the sizes; Enter or a double click resets them.
        before = page.state()
        page.tab.page.reload()  # type: ignore[attr-defined]
        page.ready()
        assert page.state() == before
        if dy:
            page.tab.page.focus(line)  # type: ignore[attr-defined]
            page.tab.press("Enter")
        else:
            page.tab.page.dblclick(line)  # type: ignore[attr-defined]
        page.settle()
        assert (box(page, ".side")[0], box(page, ".picture")[1]) == (width, height)


def test_picture_or_table_fills_the_window(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "tab=list", viewport={"width": 1280, "height": 800})
    picture = box(page, ".picture")[1]
    table = box(page, ".scroller")[1]
    page.tab.press("f")
    page.settle()
    assert box(page, ".picture")[1] > picture + 100
    assert box(page, ".below") == [0, 0]
    assert page.picture().ids.shape[0] > picture + 70
    page.tab.press("F")
    page.settle()
    assert box(page, ".scroller")[1] > table + 100
    assert box(page, ".picture") == [0, 0]
    # Everything fits into the window.
    assert page.tab.evaluate("() => document.documentElement.scrollHeight") <= 800
    page.tab.press("Escape")
    page.settle()
    assert box(page, ".picture")[1] == picture
    page.tab.page.click(".windows .full")  # type: ignore[attr-defined]
    page.settle()
    assert page.state()["full"] == "picture"


def test_ranks_are_picked_with_their_peaks(opened: OpenPage, tmp_path: Path) -> None:
    files = sorted((ROOT / "examples" / "fsdp_ranks").glob("*.pkl.gz"))
    path = tmp_path / "ranks.html"
    done = CliRunner().invoke(app, ["view", str(files[0].parent), "-o", str(path)])
    assert done.exit_code == 0
    page = opened(path)
    snaps = [mr.open(one) for one in files]
    peaks = [max(snap.replay(one).peak.bytes for one in snap.devices) for snap in snaps]
    options = page.tab.evaluate(
        "() => [...document.querySelectorAll('[data-what=picker] option')].map((one) => one.text)"
    )
    (odd,) = mr.fleet(str(files[0].parent)).outliers
    names = [f"rank {i}{' (outlier)' * (i == odd.rank)}" for i in range(len(peaks))]
    assert options == [f"{name}: {size(peak)}" for name, peak in zip(names, peaks, strict=True)]
    assert f"outlier: {outlier_line(odd)}" in page.text("[data-what=verdict]")
    assert names[odd.rank] in page.text("[aria-label=Ranks]")
    first = page.state()["snapshot"]
    for key, step in (("b", 1), ("B", 0)):
        page.tab.press(key)
        page.settle()
        rank = (first + step) % len(peaks)
        assert page.state()["snapshot"] == rank
        assert page.bytes("peak-bytes") == peaks[rank]
