"""The page also works in Firefox, from a file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import foreign, url_of
from tests.web.conftest import SINGLE, native
from tests.web.test_answers import EXAMPLES, NAMES, first_peak
from tests.web.test_errors import CALL

pytestmark = pytest.mark.browser

# Wait until the page is idle.
READY = """async () => {
  for (let i = 0; i < 1200 && document.body.dataset.state !== 'ready'; i++) {
    await new Promise((done) => setTimeout(done, 25));
  }
  return document.body.dataset.state;
}"""
# Wait until the page has a file of this name. The browser chooses it a little later.
CHOSEN = """async (name) => {
  const line = document.getElementById('line');
  for (let i = 0; i < 1200 && !line.value.includes(name); i++) {
    await new Promise((done) => setTimeout(done, 25));
  }
}"""
# Wait for the interactive page's peak.
PEAK = """async () => {
  for (let i = 0; i < 1200; i++) {
    const shown = document.querySelector('[data-what=peak-bytes]');
    if (shown) return Number(shown.dataset.bytes);
    await new Promise((done) => setTimeout(done, 25));
  }
}"""
SHOWN = """() => [
  document.getElementById('line').value,
  document.getElementById('text').textContent + document.getElementById('said').textContent,
  Number(document.body.dataset.columns),
]"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the page in one tab, for all tests."""
    path = os.environ.get("MEMREPLAY_FIREFOX")
    if not path or not SINGLE.exists():
        pytest.skip("no Firefox, or no page: ci/web gets both")
    from tests.browser.bidi import firefox

    with firefox(path, tmp_path_factory.mktemp("firefox")) as one:
        one.goto(url_of(SINGLE))
        assert one.evaluate(READY) == "ready"
        yield one


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_peak_and_report_of_an_example(tab: Any, example: Path) -> None:
    check(tab, example)


def test_peak_and_report_of_a_real_file(tab: Any, corpus_file: Path) -> None:
    check(tab, corpus_file)


@pytest.mark.parametrize("data", [CALL, b"", b"\x89PNG\r\n\x1a\n"], ids=["call", "empty", "png"])
def test_hostile_file_is_refused(tab: Any, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "evil.pkl"
    file.write_bytes(data)
    choose(tab, file)
    assert tab.evaluate(READY) == "ready"
    _, said, columns = tab.evaluate(SHOWN)
    assert said == native("memreplay view evil.pkl -o evil.html", tmp_path, columns).rstrip()
    assert said.startswith("memreplay: error: evil.pkl: ")
    close(tab)


def check(tab: Any, file: Path) -> None:
    """Open a file; compare the page's peak with Python's, and two commands with a terminal."""
    choose(tab, file)
    assert tab.evaluate(READY) == "ready"
    peak = first_peak(file)
    with in_frame(tab):
        assert tab.evaluate(PEAK) == peak
    for command in ("peak", "report"):
        press(tab, f"[data-command={command}]")
        line, text, columns = tab.evaluate(SHOWN)
        assert line.startswith(f"memreplay {command} ")
        assert text == native(line, file.parent, columns).rstrip(), command
    close(tab)


def close(tab: Any) -> None:
    """Close the file; nothing may have gone wrong."""
    press(tab, "#files .close")
    assert tab.evaluate("() => document.querySelector('#files .close')") is None
    assert [*tab.problems, *foreign(tab.requests, tab.pages)] == []


@contextmanager
def in_frame(tab: Any) -> Iterator[None]:
    """Drive the frame with the interactive page."""
    page = tab.context
    url = tab.evaluate("() => document.querySelector('iframe').src")
    # The frame still shows the last file until the browser has loaded the next one.
    for _ in range(800):
        (tree,) = tab.send("browsingContext.getTree", root=page)["contexts"]
        (frame,) = tree["children"]
        if frame["url"] == url:
            break
        time.sleep(0.025)
    tab.context = frame["context"]
    try:
        yield
    finally:
        tab.context = page


def choose(tab: Any, file: Path) -> None:
    """Choose a file, as with the browser's dialog."""
    locator = {"type": "css", "value": "#choose"}
    context = {"context": tab.context}
    (node,) = tab.send("browsingContext.locateNodes", **context, locator=locator)["nodes"]
    element = {"sharedId": node["sharedId"]}
    tab.send("input.setFiles", **context, element=element, files=[str(file)])
    tab.evaluate(CHOSEN, file.stem)


def press(tab: Any, selector: str) -> None:
    """Press a button, and wait until the page is idle."""
    tab.evaluate("(selector) => document.querySelector(selector).click()", selector)
    assert tab.evaluate(READY) == "ready"
