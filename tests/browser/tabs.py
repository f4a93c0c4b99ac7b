"""A tab of a browser, and what a page did wrong in it: the same of Chromium and of Firefox."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

# Whatever else a page asks for comes from a network, or from another file.
_OWN = ("blob:", "data:", "about:")


class Tab(Protocol):
    """One tab. `evaluate` takes a function of JavaScript, waits for what it promises, and gives
    what JSON has of it."""

    problems: list[str]
    requests: list[str]
    pages: list[str]
    """What was opened."""

    def goto(self, url: str) -> None:
        """Opens an address."""

    def evaluate(self, function: str, argument: Any = None) -> Any:
        """Calls a function in the page."""

    def press(self, key: str) -> None:
        """A key is pressed, called as playwright calls it."""

    def resize(self, width: int, height: int) -> None:
        """The page gets another size."""


def foreign(requests: Iterable[str], pages: Iterable[str]) -> list[str]:
    """Of some requests those that pages of one file have no need of."""
    own = {page.partition("#")[0] for page in pages}
    asked = (url for url in requests if url.partition("#")[0] not in own)
    return [f"request: {url[:200]}" for url in asked if not url.startswith(_OWN)]


class ChromiumTab:
    """A tab of Chromium, by playwright."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.pages: list[str] = []
        page.on("console", self._console)
        # Of the page and of its workers, whose errors no page hears of.
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
    """The address of a file."""
    return path.absolute().as_uri()
