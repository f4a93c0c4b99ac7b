"""A browser tab and its page's errors, with one interface for Chromium and Firefox."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

# URLs that a page may load without touching the network or another file.
_OWN = ("blob:", "data:", "about:")


class Tab(Protocol):
    """One tab. `evaluate` takes a JavaScript function, awaits its promise, and returns its JSON."""

    problems: list[str]
    requests: list[str]
    pages: list[str]
    """The loaded URL."""

    def goto(self, url: str) -> None:
        """Load a URL."""

    def evaluate(self, function: str, argument: Any = None) -> Any:
        """Call a function on the page."""

    def press(self, key: str) -> None:
        """Press a key, by its playwright name."""

    def resize(self, width: int, height: int) -> None:
        """Resize the page."""


def foreign(requests: Iterable[str], pages: Iterable[str]) -> list[str]:
    """Return the requests that a single-file page shouldn't make."""
    own = {page.partition("#")[0] for page in pages}
    asked = (url for url in requests if url.partition("#")[0] not in own)
    return [f"request: {url[:200]}" for url in asked if not url.startswith(_OWN)]


class ChromiumTab:
    """A Chromium tab, driven by playwright."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.pages: list[str] = []
        page.on("console", self._console)
        # Errors in workers don't reach the page, so listen on the context.
        page.context.on("weberror", lambda one: self.problems.append(f"error: {one.error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("dialog", self._dialog)
        page.on("popup", lambda other: self.problems.append(f"popup: {other.url}"))
        page.on("crash", lambda _: self.problems.append("crash"))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def goto(self, url: str) -> None:
        self.pages.append(url)
        self.page.goto(url)

    def evaluate(self, function: str, argument: Any = None) -> Any:
        return self.page.evaluate(function, argument)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def resize(self, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})


def url_of(path: Path) -> str:
    """Return a file's URL."""
    return path.absolute().as_uri()
