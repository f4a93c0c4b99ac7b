"""Nothing leaves the computer: the browser itself refuses every connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.tabs import ChromiumTab, url_of
from tests.web.conftest import SINGLE

pytestmark = pytest.mark.browser

# Ways for a page to send something.
WAYS = {
    "fetch": "(url) => fetch(url).then(() => true, () => false)",
    "beacon": "(url) => { navigator.sendBeacon(url, 'x'); return false; }",
    "image": """(url) => new Promise((done) => {
        const image = new Image();
        image.onload = () => done(true);
        image.onerror = () => done(false);
        image.src = url;
    })""",
    "socket": """(url) => new Promise((done) => {
        const socket = new WebSocket(url.replace('http', 'ws'));
        socket.onopen = () => done(true);
        socket.onerror = () => done(false);
    })""",
    "script": """(url) => new Promise((done) => {
        const script = document.createElement('script');
        script.onload = () => done(true);
        script.onerror = () => done(false);
        script.src = url;
        document.body.append(script);
    })""",
    "worker": """(url) => new Promise((done) => {
        const asked = `fetch(${JSON.stringify(url)})`;
        const code = `${asked}.then(() => postMessage(1), () => postMessage(0))`;
        const worker = new Worker(URL.createObjectURL(new Blob([code])));
        worker.onmessage = ({ data }) => done(Boolean(data));
    })""",
    "frame": """(url) => new Promise((done) => {
        const frame = document.createElement('iframe');
        frame.src = url;
        document.body.append(frame);
        setTimeout(() => done(false), 500);
    })""",
}


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """Open the page in a tab whose errors are expected."""
    if not SINGLE.exists():
        pytest.skip("the page isn't built: ci/web builds it")
    context = chromium.new_context()
    tab = ChromiumTab(context.new_page())
    tab.goto(url_of(SINGLE))
    yield tab
    context.close()


@pytest.mark.parametrize("way", WAYS)
def test_page_cannot_connect(tab: Any, site: str, way: str) -> None:
    """The request fails even though the address answers."""
    reached: list[str] = []
    tab.page.on("response", lambda one: reached.append(one.url))
    assert tab.evaluate(WAYS[way], site) is False
    tab.page.wait_for_timeout(200)
    assert [one for one in reached if one.startswith("http")] == []
