"""Errors in a page are noticed. Each kind of error has its own page."""

from __future__ import annotations

from collections.abc import Iterator
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
def test_page_error_is_noticed(
    tab: ChromiumTab, tmp_path: Path, body: str, problem: str, policy: str
) -> None:
    found = problems(tab, tmp_path, f"<!doctype html>{policy}<title>x</title>{body}")
    if policy and not any(one.startswith(problem) for one in found):
        # Forbidden requests are never sent; they appear in the console or as an error.
        assert any("Content Security Policy" in one or "Failed to fetch" in one for one in found)
    else:
        assert any(one.startswith(problem) for one in found), found


def test_correct_page_has_no_errors(tab: ChromiumTab, tmp_path: Path) -> None:
    body = f"<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>{in_worker('1')}"
    assert problems(tab, tmp_path, f"<!doctype html>{POLICY}<title>x</title>{body}", 5) == []


@pytest.fixture(scope="module")
def tab(chromium: Any) -> Iterator[ChromiumTab]:
    """Share one tab among all tests."""
    context = chromium.new_context(offline=True)
    yield ChromiumTab(context.new_page())
    context.close()


def problems(tab: ChromiumTab, folder: Path, text: str, patience: int = 100) -> list[str]:
    """Return the page's errors, polled every 50 ms, at most this many times."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    tab.goto("about:blank")
    tab.problems.clear()
    tab.requests.clear()
    tab.goto(path.as_uri())
    found: list[str] = []
    for _ in range(patience):
        tab.page.wait_for_timeout(50)
        found = [*tab.problems, *foreign(tab.requests, [path.as_uri()])]
        if found:
            break
    return found
