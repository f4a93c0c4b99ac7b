"""Strings from a snapshot stay plain text on its page, never scripts or markup."""

from __future__ import annotations

import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

import memreplay as mr
from memreplay.analysis.groups.ways import WAYS
from memreplay.texts import clean
from tests import build
from tests.browser.conftest import OpenPage
from tests.browser.hostile import LONG, NAMES, snapshot
from tests.browser.viewed import Viewed

pytestmark = pytest.mark.browser

TABS = ("holders", "flame", "list", "between", "allocator", "events", "report")
# Elements that our pages don't have.
FOREIGN = """() => {
  const own = 'html head meta title link style body main noscript script section header article'
    + ' aside nav footer div span p h1 h2 h3 h4 ul ol li dl dt dd table caption colgroup col thead'
    + ' tbody tr th td button label input select option fieldset legend output small strong b i em'
    + ' code pre canvas svg g line path rect polyline polygon text title circle kbd hr br';
  const known = new Set(own.split(' '));
  const found = [];
  for (const one of document.querySelectorAll('*')) {
    if (!known.has(one.localName)) found.push(`<${one.localName}>`);
    for (const { name, value } of one.attributes) {
      if (/^on/i.test(name)) found.push(`${one.localName} ${name}`);
      if (!/^(href|src|action|formaction|xlink:href)$/i.test(name)) continue;
      if (!/^(data:|blob:|#)/.test(value)) found.push(`${one.localName} ${name}=${value}`);
    }
  }
  if (document.querySelectorAll('script').length > 3) found.push('another script');
  if (document.querySelectorAll('style').length > 1) found.push('another style');
  if ('hit' in globalThis) found.push('a script ran');
  return found;
}"""
MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


def test_hostile_names_stay_text_everywhere(opened: OpenPage) -> None:
    page = opened(snapshot(*NAMES.values()))
    for tab in TABS:
        page.set(tab=tab, at=30, other=2)
        check(page)
    for way in WAYS:
        page.set(by=way, colour=way, tab="holders")
        check(page)
        page.set(tab="between")
        check(page)
    for pin in range(6):
        page.set(pin=pin)
        check(page)
    page.set(pin=None, tab="holders", by="stack", device=1)
    hover(page)
    check(page)


def test_names_are_shown_unchanged(opened: OpenPage) -> None:
    """Each name is shown as commands print it, and can be searched for."""
    # All of these were allocated only at the end; the page opens at the first failed request.
    page = opened(snapshot(*NAMES.values()), "by=function")
    page.tab.press("m")
    (seen,) = page.seen([{}], all_rows=True)
    assert {row.name for row in seen.rows} >= set(map(clean, NAMES.values()))
    for text in NAMES.values():
        page.set(search=text)
        assert page.tab.evaluate(FOREIGN) == []


def hover(page: Viewed) -> None:
    """Hover over the picture, the lanes, and everything else that shows names."""
    for selector in (".picture", ".lanes", "[role=tabpanel]"):
        page.tab.evaluate(
            """(selector) => {
              const one = document.querySelector(selector);
              if (!one) return;
              const { left, top, width, height } = one.getBoundingClientRect();
              const at = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true };
              for (const kind of ['pointermove', 'mousemove', 'mouseover'])
                document.elementFromPoint(at.clientX, at.clientY)?.dispatchEvent(
                  new PointerEvent(kind, at));
            }""",
            selector,
        )
        page.settle()


def check(page: Viewed) -> None:
    assert page.tab.evaluate(FOREIGN) == []
    assert not set(MARKS) & set(page.text()), "text may turn round what is beside it"


def test_longest_names_do_not_widen_the_page(opened: OpenPage) -> None:
    page = opened(snapshot(LONG))
    for tab in TABS:
        page.set(tab=tab, at=7, other=2)
        check(page)
        assert page.tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    # Nor do they push the picture out of the window.
    top = page.tab.evaluate("() => document.querySelector('.picture').getBoundingClientRect().top")
    assert 0 < top < 500


@pytest.mark.parametrize("name", ["data", "bidi", "shell"])
def test_hostile_file_names_stay_text(opened: OpenPage, tmp_path: Path, name: str) -> None:
    text = NAMES[name].replace("/", "\u2215").encode("utf-8", "replace").decode()
    path = tmp_path / f"{text}.pkl"
    path.write_bytes(build.dump(snapshot("plain")))
    page = opened(mr.open(path))
    check(page)
    assert clean(text) in page.text(".bar")
    # A shell splits the displayed command line into the intended arguments.
    for tab in TABS:
        page.set(tab=tab)
        if said := page.text("[role=tabpanel] [data-what=command]"):
            assert clean(str(path)) in shlex.split(said), tab


def test_saved_svg_contains_names_as_text(opened: OpenPage, tmp_path: Path) -> None:
    text = NAMES["data"].replace("/", "\u2215")
    path = tmp_path / f"{text}.pkl"
    path.write_bytes(build.dump(snapshot(*NAMES.values())))
    page = opened(mr.open(path))
    saved = tmp_path / "saved.svg"
    with page.tab.page.expect_download() as download:  # type: ignore[attr-defined]
        page.tab.page.get_by_title("Save the picture as SVG").first.click()  # type: ignore[attr-defined]
    download.value.save_as(saved)
    tree = ElementTree.parse(saved)
    for one in tree.iter():
        assert one.tag.rpartition("}")[2] in {
            "svg",
            "g",
            "line",
            "rect",
            "text",
            "image",
            "path",
            "polyline",
            "clipPath",
            "pattern",
        }
        assert not [key for key in one.attrib if key.lower().startswith("on")]
