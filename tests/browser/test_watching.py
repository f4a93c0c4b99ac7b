"""What a page does wrong is noticed: each kind of it, of pages that do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import ChromiumTab, foreign

pytestmark = pytest.mark.browser

POLICY = (
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none';"
    " script-src 'unsafe-inline'; worker-src blob:; img-src data:\">"
)


def in_worker(script: str) -> str:
    return f"<script>new Worker(URL.createObjectURL(new Blob([`{script}`])))</script>"


@pytest.mark.parametrize(
    "body, problem",
    [
        ("<img src='https://example.com/x.png'>", "request: https://example.com/x.png"),
        ("<img src='other.png'>", "request: file:"),
        ("<script src='https://example.com/x.js'></script>", "request: https://example.com/x.js"),
        ("<script>fetch('https://example.com/')</script>", "request: https://example.com/"),
        (in_worker("fetch('https://example.com/')"), "request: https://example.com/"),
        (in_worker("Promise.reject(Error('boom'))"), "error: boom"),
        (in_worker("console.error('bad')"), "console: bad"),
        ("<script>new WebSocket('ws://example.com/')</script>", "request: ws://example.com/"),
        ("<script>console.error('bad')</script>", "console: bad"),
        ("<script>console.warn('bad')</script>", "console: bad"),
        ("<script>setTimeout(() => { throw new Error('boom') })</script>", "error: boom"),
        ("<script>Promise.reject(new Error('boom'))</script>", "error: boom"),
        ("<script>alert('hello')</script>", "dialog: hello"),
    ],
)
@pytest.mark.parametrize("policy", ["", POLICY], ids=["free", "policy"])
def test_is_noticed(chromium: Any, tmp_path: Path, body: str, problem: str, policy: str) -> None:
    found = _problems(chromium, tmp_path, f"<!doctype html>{policy}<title>x</title>{body}")
    if policy and not any(one.startswith(problem) for one in found):
        # What it forbids is not even asked for, and said in the console or thrown.
        assert any("Content Security Policy" in one or "Failed to fetch" in one for one in found)
    else:
        assert any(one.startswith(problem) for one in found), found


def test_a_good_page_does_nothing_wrong(chromium: Any, tmp_path: Path) -> None:
    body = f"<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>{in_worker('1')}"
    assert _problems(chromium, tmp_path, f"<!doctype html>{POLICY}<title>x</title>{body}") == []


def _problems(chromium: Any, folder: Path, text: str) -> list[str]:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    context = chromium.new_context(offline=True)
    tab = ChromiumTab(context.new_page())
    tab.goto(path.as_uri())
    tab.page.wait_for_timeout(200)
    context.close()
    return [*tab.problems, *foreign(tab.requests, path.as_uri())]
