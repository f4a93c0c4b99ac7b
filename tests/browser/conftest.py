"""Fixtures for the browser tests: browsers, snapshot pages, and a check for page errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.browser.tabs import ChromiumTab, foreign
from tests.browser.viewed import Viewed
from tests.conftest import ROOT

NO_BROWSER = "no browser to drive: ci/viewer-tools gets chromium and playwright"
EXAMPLES = sorted(ROOT.glob("examples/*.pkl.gz"))
SIZE = {"width": 1280, "height": 800}
# Chromium's own sandbox needs rights that a container doesn't grant.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"]

PageOf = Callable[[Any], Path]
OpenPage = Callable[..., Viewed]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `example` once per example."""
    if "example" in metafunc.fixturenames:
        metafunc.parametrize("example", EXAMPLES, ids=[one.name[:-7] for one in EXAMPLES])


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start headless Chromium; skip if it isn't available."""
    path = os.environ.get("MEMREPLAY_CHROMIUM")
    if not path:
        pytest.skip(NO_BROWSER)
    sync_api = pytest.importorskip("playwright.sync_api", reason=NO_BROWSER)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> PageOf:
    """Return a snapshot's page. The snapshot is a file, its contents, a dict, or an open
    Snapshot.
    """
    folder = tmp_path_factory.mktemp("pages")
    made: dict[Path, Path] = {}

    def page(snapshot: Any) -> Path:
        if isinstance(snapshot, Path) and snapshot in made:
            return made[snapshot]
        snap = snapshot
        if not isinstance(snapshot, mr.Snapshot):
            snap = mr.open(build.dump(snapshot) if isinstance(snapshot, dict) else snapshot)
        path = folder / f"{len(list(folder.iterdir()))}.html"
        mr.view(snap).save(str(path))
        if isinstance(snapshot, Path):
            made[snapshot] = path
        return path

    return page


@pytest.fixture
def opened(chromium: Any, page_of: PageOf) -> Iterator[OpenPage]:
    """Open a snapshot's page in Chromium; fail at the end if the page had errors.

    Keywords are the same as for playwright's contexts: `color_scheme`, `viewport` …
    """
    tabs: list[ChromiumTab] = []
    contexts: list[Any] = []

    def open_page(snapshot: Any, fragment: str = "", **options: Any) -> Viewed:
        path = snapshot if _is_page(snapshot) else page_of(snapshot)
        context = chromium.new_context(**{"viewport": SIZE, "offline": True, **options})
        context.set_default_timeout(20_000)
        contexts.append(context)
        tab = ChromiumTab(context.new_page())
        tabs.append(tab)
        return Viewed(tab).open(path, fragment)

    yield open_page
    for context in contexts:
        context.close()
    for tab in tabs:
        assert [*tab.problems, *foreign(tab.requests, tab.pages)] == []


def _is_page(snapshot: Any) -> bool:
    return isinstance(snapshot, Path) and snapshot.suffix == ".html"
