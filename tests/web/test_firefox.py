"""The page also works in Firefox, from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import foreign, url_of
from tests.conftest import ROOT
from tests.web.conftest import SINGLE, native

pytestmark = pytest.mark.browser

EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"
# Wait until the page is in a state.
STATE = """async (state) => {
  for (let i = 0; i < 600 && document.body.dataset.state !== state; i++) {
    await new Promise((done) => setTimeout(done, 50));
  }
  return document.body.dataset.state;
}"""


def test_page_opens_a_file(tmp_path: Path) -> None:
    path = os.environ.get("MEMREPLAY_FIREFOX")
    if not path or not SINGLE.exists():
        pytest.skip("no Firefox, or no page: ci/web gets both")
    from tests.browser.bidi import firefox

    with firefox(path, tmp_path) as tab:
        tab.goto(url_of(SINGLE))
        assert tab.evaluate(STATE, "ready") == "ready"
        choose(tab, EXAMPLE)
        assert tab.evaluate(STATE, "busy") == "busy"
        assert tab.evaluate(STATE, "ready") == "ready"
        tab.evaluate("() => document.querySelector('[data-command=peak]').click()")
        assert tab.evaluate(STATE, "ready") == "ready"
        line, text, columns = tab.evaluate("""() => [
            document.getElementById('line').value,
            document.getElementById('text').textContent,
            Number(document.body.dataset.columns),
        ]""")
        assert text == native(line, EXAMPLE.parent, columns).rstrip()
        assert [*tab.problems, *foreign(tab.requests, tab.pages)] == []


def choose(tab: Any, file: Path) -> None:
    """Choose a file, as with the browser's dialog."""
    locator = {"type": "css", "value": "#choose"}
    context = {"context": tab.context}
    (node,) = tab.send("browsingContext.locateNodes", **context, locator=locator)["nodes"]
    element = {"sharedId": node["sharedId"]}
    tab.send("input.setFiles", **context, element=element, files=[str(file)])
