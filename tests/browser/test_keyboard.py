"""Everything works without a mouse: keys move, zoom, select and search, and the focus is
visible.
"""

from __future__ import annotations

import pytest

import memreplay as mr
from tests.browser.conftest import EXAMPLES, OpenPage
from tests.browser.expected import moment_of
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

EXAMPLE = next(one for one in EXAMPLES if one.name.startswith("transformer_step"))
# Returns the focused element's accessible name, whether it's in view, and whether its focus ring is
# visible.
FOCUS = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const { outlineStyle, boxShadow, borderColor } = getComputedStyle(one);
  const { width, height, top } = one.getBoundingClientRect();
  return {
    tag: one.localName,
    role: one.getAttribute('role') ?? '',
    name: (one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent
      || one.title || '').trim(),
    seen: width > 0 && height > 0 && top < innerHeight && outlineStyle !== 'none'
      || boxShadow !== 'none',
  };
}"""


def press(page: Viewed, *keys: str) -> None:
    for key in keys:
        page.tab.press(key)
        page.settle()


def test_keys_move_the_cursor(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    replay = mr.open(EXAMPLE).replay()
    peak = moment_of(replay, replay.peak.event_index)
    assert page.moment() == peak
    for keys, moment in (
        (["ArrowRight"], peak + 1),
        (["ArrowLeft", "ArrowLeft"], peak - 1),
        (["Home"], 0),
        (["ArrowLeft"], 0),
        (["End"], replay.events),
        (["ArrowRight"], replay.events),
        (["m"], peak),
    ):
        press(page, *keys)
        assert page.moment() == moment, keys
    press(page, "Shift+ArrowRight")
    assert page.moment() > peak + 10


def test_keys_jump_between_peaks_and_marks(opened: OpenPage) -> None:
    page = opened(EXAMPLE, "at=0")
    seen = []
    for _ in range(4):
        press(page, "p")
        seen.append(page.moment())
    assert seen == sorted(set(seen))
    press(page, "P")
    assert page.moment() == seen[-2]


def test_keys_zoom_and_pan(opened: OpenPage) -> None:
    page = opened(EXAMPLE)

    def span() -> tuple[float, float]:
        found = page.picture().query["span"]
        return found["from"], found["to"]

    whole = span()
    press(page, "+")
    half = span()
    assert half[1] - half[0] == pytest.approx((whole[1] - whole[0]) / 2, abs=1)
    at = page.moment()
    assert half[0] <= at < half[1]
    press(page, "+", "+")
    near = span()
    press(page, "d")
    assert span()[0] > near[0]
    press(page, "a")
    assert span() == pytest.approx(near, abs=1)
    press(page, "PageDown")
    assert span()[0] == pytest.approx(near[1], abs=1)
    press(page, "PageUp")
    assert span() == pytest.approx(near, abs=1)
    press(page, "0")
    assert span() == whole
    press(page, "x")
    assert page.picture().query["axis"] == "time"


def test_escape_leaves_the_search_field_and_then_clears_the_search(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    total = page.bytes("total")
    press(page, "/")
    page.tab.page.keyboard.type("model.py")  # type: ignore[attr-defined]
    page.tab.page.wait_for_timeout(300)  # type: ignore[attr-defined]
    page.settle()
    assert page.state()["search"] == "model.py"
    assert 0 < page.bytes("total") < total
    # The first Escape leaves the field, the second clears the search. Letters typed in the field
    # aren't commands.
    press(page, "Escape", "Escape")
    assert page.state()["search"] == ""
    assert page.bytes("total") == total


def test_keys_switch_tabs_and_select_rows(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    for key, tab in zip("123", ("holders", "flame", "list"), strict=True):
        press(page, key)
        assert page.state()["tab"] == tab
    press(page, "1")
    page.tab.evaluate("() => document.querySelector('[role=tab][aria-selected=true]').focus()")
    press(page, "ArrowRight")
    assert page.state()["tab"] == "flame"
    press(page, "ArrowLeft")
    page.tab.evaluate(
        "() => document.querySelector('[role=tabpanel] tbody tr[tabindex=\"0\"]').focus()"
    )
    press(page, "ArrowDown", "Enter")
    chosen = page.state()["group"]
    assert chosen is not None
    at = page.moment()
    press(page, "Escape")
    # Keys pressed in a row act on that row; Escape clears the selection from anywhere.
    page.tab.evaluate("() => document.activeElement.blur()")
    press(page, "Escape")
    assert page.state()["group"] is None
    assert page.moment() == at


def test_question_mark_opens_the_list_of_keys(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    press(page, "?")
    assert page.count("[role=dialog], dialog[open]") == 1
    inside = page.tab.evaluate(
        "() => document.querySelector('[role=dialog], dialog').contains(document.activeElement)"
    )
    assert inside
    press(page, "Escape")
    assert page.count("[role=dialog], dialog[open]") == 0


def test_list_of_keys_begins_at_its_top_in_low_windows(opened: OpenPage) -> None:
    page = opened(EXAMPLE, viewport={"width": 1000, "height": 500})
    page.tab.press("?")
    page.settle()
    assert page.tab.evaluate("() => document.querySelector('dialog').scrollTop") == 0
    assert page.tab.evaluate("() => document.activeElement.textContent") == "Close"
    page.tab.press("Enter")
    page.settle()
    assert page.count("dialog[open]") == 0


def test_tab_reaches_everything(opened: OpenPage) -> None:
    """Each tab stop has a name, is visible and shows its focus; after the last one, the focus wraps
    around.
    """
    page = opened(EXAMPLE)
    stops = []
    for _ in range(120):
        page.tab.press("Tab")
        one = page.tab.evaluate(FOCUS)
        if one is None:
            break
        stops.append(one)
    assert 10 < len(stops) < 120, "the focus is caught somewhere, or there is none"
    assert [one for one in stops if not one["name"]] == []
    assert [one for one in stops if not one["seen"]] == []
    reached = {one["role"] or one["tag"] for one in stops}
    assert reached >= {"select", "input", "button", "tab", "slider"}


def test_all_controls_have_accessible_names(opened: OpenPage) -> None:
    page = opened(EXAMPLE)
    for tab in ("holders", "flame", "list", "allocator", "report"):
        page.set(tab=tab)
        nameless = page.tab.evaluate(
            """() => [...document.querySelectorAll(
              'button, select, input, [role=button], [role=tab], [role=slider], [tabindex]')]
              .filter((one) => !(one.getAttribute('aria-label') || one.labels?.length
                || one.getAttribute('aria-labelledby') || one.textContent.trim() || one.title))
              .map((one) => one.outerHTML.slice(0, 100))"""
        )
        assert nameless == [], tab
