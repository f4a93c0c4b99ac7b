"""At several sizes, light and dark, nothing overflows the page and text is legible."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("leaky"))
OOM = next(one for one in EXAMPLES if one.name.startswith("serving_oom"))
TABS = ("holders", "flame", "list", "between", "allocator", "events", "report")
SIZES = [(390, 844), (768, 1024), (1280, 720)]
# Returns the elements that overflow the page or a container that doesn't scroll.
STICKING_OUT = """() => [...document.querySelectorAll('body *')]
  .filter((one) => {
    const { right, left, width } = one.getBoundingClientRect();
    if (width === 0 || (right <= innerWidth + 1 && left >= -1)) return false;
    for (let up = one.parentElement; up; up = up.parentElement) {
      const { overflowX } = getComputedStyle(up);
      if (overflowX !== 'visible') return false;
    }
    return true;
  })
  .map((one) => `${one.localName}.${one.className}`)"""
# Returns each piece of text's contrast with its background, as WCAG 2 defines it.
FAINT = """() => {
  const parsed = (colour) => {
    const context = new OffscreenCanvas(1, 1).getContext('2d');
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((one) =>
      one / 255 <= 0.03928 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (one) => {
    for (let up = one; up; up = up.parentElement) {
      const colour = parsed(getComputedStyle(up).backgroundColor);
      if (colour[3] === 255) return colour;
      if (colour[3] > 0) return null;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const one = texts.currentNode.parentElement;
    if (!text || one.closest('script, style, noscript, option, :disabled, svg')) continue;
    if (!one.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const back = behind(one);
    if (!back) continue;
    const [a, b] = [light(parsed(getComputedStyle(one).color)), light(back)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(1)}: ${one.className} ${text.slice(0, 40)}`);
  }
  return [...new Set(found)];
}"""


def wide(page: Viewed) -> Any:
    return page.tab.evaluate("() => document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nothing_overflows(opened: OpenPage, size: tuple[int, int]) -> None:
    page = opened(EXAMPLE, viewport={"width": size[0], "height": size[1]})
    for tab in TABS:
        page.set(tab=tab, other=100, pin=3 if tab == "list" else None)
        assert wide(page) <= 0, tab
        assert page.tab.evaluate(STICKING_OUT) == [], tab
    picture = page.picture()
    assert picture.ids.shape[1] > size[0] / 2
    assert picture.ids.shape[0] > 100


def test_layout_follows_the_window(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    for width, height in [(320, 480), (1920, 1080)]:
        page.tab.resize(width, height)
        page.settle()
        page.tab.page.wait_for_timeout(150)  # type: ignore[attr-defined]
        page.settle()
        assert wide(page) <= 0
        assert page.picture().query["width"] > width / 2


@pytest.mark.parametrize("size", [(1000, 700), (1280, 800), (1440, 900), (1920, 1080)], ids=str)
def test_visible_range_is_legible(opened: OpenPage, size: tuple[int, int]) -> None:
    """The line above the picture shows the range in full, and doesn't move the picture."""
    page = opened(OOM, viewport={"width": size[0], "height": size[1]})
    top = "() => document.querySelector('.picture').getBoundingClientRect().top"
    hidden = """() => {
      const { scrollWidth, clientWidth } = document.querySelector('[data-what=range]');
      return scrollWidth - clientWidth;
    }"""
    tops = set()
    for part in ({"from": None, "to": None}, {"from": 10_000, "to": 16_000.5}):
        page.set(**part)
        tops.add(page.tab.evaluate(top))
        assert page.tab.evaluate(hidden) <= 0
        # All buttons beside it are in one row, at the right.
        rows = page.tab.evaluate(
            "() => [...document.querySelectorAll('.tools button.small')]"
            ".map((one) => one.getBoundingClientRect().top)"
        )
        assert len(set(rows)) == 1
    assert len(tops) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible(opened: OpenPage, scheme: str) -> None:
    page = opened(EXAMPLE, color_scheme=scheme)
    assert page.tab.evaluate("() => document.documentElement.dataset.theme") == scheme
    for tab in TABS:
        page.set(tab=tab, other=100)
        assert page.tab.evaluate(FAINT) == [], tab


def test_t_key_switches_between_light_and_dark(opened: OpenPage) -> None:
    page = opened(EXAMPLE, color_scheme="light")
    corner = page.picture(drawn=True).drawn[0, 0].tolist()
    page.tab.press("t")
    page.settle()
    assert page.tab.evaluate("() => document.documentElement.dataset.theme") == "dark"
    dark = page.picture(drawn=True).drawn[0, 0].tolist()
    assert sum(dark[:3]) < 200 < sum(corner[:3])


def test_text_zoomed_to_200_percent_does_not_overflow(opened: OpenPage) -> None:
    """The font size is set as the browser's own setting would do it."""
    page = opened(EXAMPLE)
    page.tab.evaluate("() => { document.documentElement.style.fontSize = '200%'; }")
    page.settle()
    assert wide(page) <= 0


def test_picture_uses_every_pixel_of_a_high_resolution_screen(opened: OpenPage) -> None:
    page = opened(EXAMPLE, device_scale_factor=2)
    picture = page.picture()
    css = page.tab.evaluate(
        "() => document.querySelector('[data-what=picture]').getBoundingClientRect().width"
    )
    assert picture.ids.shape[1] == pytest.approx(2 * css, abs=1)
