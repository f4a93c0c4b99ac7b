"""The page works in Firefox without errors, with the same text and pixels as in Chromium."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.browser.bidi import FirefoxTab, firefox
from tests.browser.conftest import NO_BROWSER, PageOf
from tests.browser.hostile import NAMES, snapshot
from tests.browser.painter import recording
from tests.browser.tabs import foreign, url_of
from tests.browser.test_hostile import FOREIGN
from tests.browser.test_numbers import check
from tests.browser.test_odd_files import TABS, walk
from tests.browser.test_picture import check_pixels
from tests.browser.viewed import Viewed
from tests.views import everything

pytestmark = pytest.mark.browser

FORBIDDEN = (
    "<meta http-equiv=Content-Security-Policy content=\"img-src 'none'\">"
    "<script>new Image().src = 'https://example.invalid/x.png'</script>"
)

OpenPage = Callable[[Any], Viewed]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirefoxTab]:
    """Share one tab among all tests, because starting it takes seconds."""
    path = os.environ.get("MEMREPLAY_FIREFOX")
    if not path:
        pytest.skip(NO_BROWSER)
    pytest.importorskip("websockets", reason=NO_BROWSER)
    with firefox(path, tmp_path_factory.mktemp("profile")) as made:
        made.resize(800, 600)
        yield made


@pytest.fixture
def opened(tab: FirefoxTab, page_of: PageOf) -> Iterator[OpenPage]:
    """Open a snapshot's page; fail at the end if the page had errors."""
    for done in (tab.problems, tab.requests, tab.pages):
        done.clear()
    yield lambda snapshot: Viewed(tab).open(page_of(snapshot))
    assert [*tab.problems, *foreign(tab.requests, tab.pages)] == []


def test_numbers_match_the_python_interface(opened: OpenPage, example: Path) -> None:
    check(opened(example), mr.open(example), cursors=10)


def test_every_pixel_has_the_right_owner(opened: OpenPage) -> None:
    snapshot = everything()
    of = recording(mr.open(build.dump(snapshot)), 0, "requested")
    page = opened(snapshot)
    check_pixels(page, of)
    page.set(axis="time", **{"from": 2, "to": 7.5})
    check_pixels(page, of)


def test_all_tabs_work(opened: OpenPage) -> None:
    walk(opened(everything()))


def test_page_says_if_nothing_was_recorded(opened: OpenPage) -> None:
    assert "nothing was recorded" in opened(build.SnapshotBuilder().build()).text().lower()


def test_hostile_names_stay_text(opened: OpenPage) -> None:
    page = opened(snapshot(*NAMES.values()))
    for name in TABS:
        page.set(tab=name, at=30, other=2, pin=1)
        assert page.tab.evaluate(FOREIGN) == []


def test_keys_move_the_cursor_and_switch_tabs(opened: OpenPage) -> None:
    page = opened(everything())
    for key, moment in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        page.tab.press(key)
        page.settle()
        assert page.moment() == moment
    page.tab.press("2")
    page.settle()
    assert page.state()["tab"] == "flame"


@pytest.mark.parametrize(
    "body, problem",
    [
        ("<img src='https://example.invalid/x.png'>", "request: https://example.invalid/"),
        ("<script>console.error('bad')</script>", "console: bad"),
        ("<script>setTimeout(() => { throw new Error('boom') })</script>", "javascript: "),
        (FORBIDDEN, "javascript: Content-Security-Policy"),
    ],
)
def test_page_errors_are_noticed(tab: FirefoxTab, tmp_path: Path, body: str, problem: str) -> None:
    for done in (tab.problems, tab.requests, tab.pages):
        done.clear()
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>x</title>{body}")
    tab.goto(url_of(path))
    tab.evaluate("() => new Promise((done) => setTimeout(done, 200))")
    found = [*tab.problems, *foreign(tab.requests, tab.pages)]
    assert any(one.startswith(problem) for one in found), found
