"""The page also works in Firefox, from a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import foreign, url_of
from tests.web.conftest import SINGLE, native
from tests.web.test_answers import EXAMPLES, NAMES

pytestmark = pytest.mark.browser

# Wait until the page is idle.
READY = """async () => {
  for (let i = 0; i < 1200 && document.body.dataset.state !== 'ready'; i++) {
    await new Promise((done) => setTimeout(done, 25));
  }
  return document.body.dataset.state;
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


def check(tab: Any, file: Path) -> None:
    """Open a file, compare two commands with a terminal, and close the file."""
    choose(tab, file)
    assert tab.evaluate(READY) == "ready"
    for command in ("peak", "report"):
        press(tab, f"[data-command={command}]")
        line, text, columns = tab.evaluate(SHOWN)
        assert line.startswith(f"memreplay {command} ")
        assert text == native(line, file.parent, columns).rstrip(), command
    press(tab, "#files .close")
    assert tab.evaluate("() => document.querySelector('#files .close')") is None
    assert [*tab.problems, *foreign(tab.requests, tab.pages)] == []


def choose(tab: Any, file: Path) -> None:
    """Choose a file, as with the browser's dialog."""
    locator = {"type": "css", "value": "#choose"}
    context = {"context": tab.context}
    (node,) = tab.send("browsingContext.locateNodes", **context, locator=locator)["nodes"]
    element = {"sharedId": node["sharedId"]}
    tab.send("input.setFiles", **context, element=element, files=[str(file)])


def press(tab: Any, selector: str) -> None:
    """Press a button, and wait until the page is idle."""
    tab.evaluate("(selector) => document.querySelector(selector).click()", selector)
    assert tab.evaluate(READY) == "ready"
