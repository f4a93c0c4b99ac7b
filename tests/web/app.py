"""Use the page as a person does: choose files, press tabs, edit the command line, read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.tabs import ChromiumTab
from tests.browser.viewed import READY

PATIENCE_MS = 20_000
# Waits until the interactive page has drawn its picture.
PICTURE = """async () => {
  while (!globalThis.memreplay?.picture()) await new Promise((done) => setTimeout(done, 5));
}"""


def shown(page: Any) -> Any:
    """Return the interactive page's frame, once it has left the page before it."""
    element = page.wait_for_selector("#page")
    frame, source = element.content_frame(), element.get_attribute("src")
    # The page appends its state.
    frame.wait_for_url(lambda url: url.partition("#")[0] == source)
    return frame


class App:
    """The page in a tab."""

    def __init__(self, tab: ChromiumTab, url: str) -> None:
        self.tab = tab
        self.page = tab.page
        self.page.set_default_timeout(PATIENCE_MS)
        tab.goto(url)
        self.page.wait_for_selector("body[data-started]")

    def open(self, *files: Path) -> None:
        """Choose files, and wait for the page about them."""
        self.page.set_input_files("#choose", [str(one) for one in files])
        self.settle()

    def settle(self) -> None:
        """Wait until the page is idle."""
        self.page.wait_for_selector("body[data-state=ready]")

    def close_all(self) -> None:
        """Close all files."""
        self.settle()
        while (close := self.page.query_selector("#files .close")) is not None:
            close.click()
            self.settle()

    def press(self, tab: str) -> None:
        """Choose a command by its tab's name."""
        self.page.click(f"[role=tab]:text-is('{tab}')")
        self.settle()

    def run(self, line: str) -> None:
        """Edit the command line, and run it."""
        self.page.fill("#line", line)
        self.page.press("#line", "Enter")
        self.settle()

    @property
    def line(self) -> str:
        """The command line."""
        return str(self.page.input_value("#line"))

    @property
    def text(self) -> str:
        """The printed text."""
        return str(self.tab.evaluate("() => document.getElementById('text').textContent"))

    @property
    def said(self) -> str:
        """Errors and notes."""
        return str(self.tab.evaluate("() => document.getElementById('said').textContent"))

    @property
    def columns(self) -> int:
        """The width of text."""
        return int(self.tab.evaluate("() => document.body.dataset.columns"))

    def frame(self) -> Any:
        """Return the interactive page, complete."""
        frame = shown(self.page)
        frame.evaluate(READY)
        return frame

    def saved(self, folder: Path) -> Path:
        """Save what is shown, and return the file."""
        with self.page.expect_download() as waiting:
            self.page.click("#save")
        path = folder / str(waiting.value.suggested_filename)
        waiting.value.save_as(path)
        return path

    def unexpected(self) -> list[str]:
        """Return the page's errors, and requests that leave it."""
        own = self.tab.pages[0].rpartition("/")[0] + "/"
        asked = [one for one in self.tab.requests if not one.startswith((own, "blob:", "data:"))]
        return [*self.tab.problems, *asked]
