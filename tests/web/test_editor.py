"""The page in an editor's webview: the extension of the .vsix hands over the files, and saves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.browser.tabs import ChromiumTab
from tests.browser.viewed import READY
from tests.conftest import ROOT
from tests.web.app import PATIENCE_MS, shown
from tests.web.conftest import BUILT, native, serving
from tests.web.test_errors import CALL

pytestmark = pytest.mark.browser

PACKAGE = BUILT / "memreplay.vsix"
EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"
OTHER = ROOT / "examples" / "transformer_deeper.pkl.gz"
BAD = "evil.pkl"
# Chromium says this of each webview.
SANDBOXED = "console: An iframe which has both allow-scripts and allow-same-origin"


class Editor:
    """VS Code's window, as tests/web/editor.html plays it."""

    def __init__(self, tab: ChromiumTab, address: str) -> None:
        self.tab = tab
        tab.page.set_default_timeout(PATIENCE_MS)
        tab.goto(f"{address}editor.html")

    def open(self, *names: str, theme: str = "vscode-light") -> Any:
        """Choose files in the explorer's menu; return the webview's frame when it shows them."""
        self.tab.evaluate("(words) => open(...words)", [theme, *(f"/files/{one}" for one in names)])
        frame = self.tab.page.frames[1]
        frame.wait_for_selector("body[data-started]")
        frame.wait_for_selector("#files li, #said:not([hidden])")
        frame.wait_for_selector("body[data-state=ready]")
        return frame


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the editor, the extension and snapshots."""
    if not PACKAGE.exists():
        pytest.skip("the extension isn't built: ci/web builds it")
    folder = tmp_path_factory.mktemp("editor")
    with ZipFile(PACKAGE) as package:
        package.extractall(folder)
    shutil.copy(Path(__file__).with_name("editor.html"), folder)
    (folder / "blank.html").write_text("<!doctype html>")
    (folder / "files").mkdir()
    for one in (EXAMPLE, OTHER):
        shutil.copy(one, folder / "files")
    (folder / "files" / BAD).write_bytes(CALL)
    with serving(folder) as address:
        yield address


@pytest.fixture
def editor(chromium: Any, address: str) -> Iterator[Editor]:
    """Return a new window; fail at the end if its page had errors, or used the network."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    editor = Editor(ChromiumTab(context.new_page()), address)
    yield editor
    context.close()
    assert [one for one in editor.tab.problems if not one.startswith(SANDBOXED)] == []
    own = (f"{address}extension/", f"{address}files/", "blob:", "data:")
    pages = (f"{address}editor.html", f"{address}blank.html")
    assert [one for one in editor.tab.requests if not one.startswith(own + pages)] == []


def press(frame: Any, tab: str) -> None:
    frame.click(f"[role=tab]:text-is('{tab}')")
    frame.wait_for_selector("body[data-state=ready]")


def test_snapshot_is_shown_like_in_a_browser(editor: Editor) -> None:
    frame = editor.open(EXAMPLE.name)
    inner = shown(frame)
    inner.evaluate(READY)
    assert frame.evaluate("() => document.querySelector('header').clientWidth") == 1280
    assert inner.evaluate("() => memreplay.state().measure") == "requested"
    press(frame, "Peak")
    line = str(frame.input_value("#line"))
    columns = int(frame.evaluate("() => document.body.dataset.columns"))
    expected = native(line, EXAMPLE.parent, columns)
    assert frame.text_content("#text") == expected.rstrip()


def test_two_snapshots_are_compared(editor: Editor) -> None:
    frame = editor.open(EXAMPLE.name, OTHER.name)
    press(frame, "Differences")
    assert frame.input_value("#line") == f"memreplay diff {EXAMPLE.name} {OTHER.name}"


@pytest.mark.parametrize("tab, name", [("Page", ".html"), ("Report", "-report.txt")])
def test_saved_file_goes_through_the_editor(editor: Editor, tab: str, name: str) -> None:
    frame = editor.open(EXAMPLE.name)
    press(frame, tab)
    shown = frame.text_content("#text")
    frame.click("#save")
    path = f"/files/transformer_step{name}"
    wait: Callable[..., Any] = editor.tab.page.wait_for_function
    wait("(path) => editor.saved[path]", arg=path)
    text = bytes(editor.tab.evaluate("(path) => editor.saved[path]", path)).decode()
    assert text.startswith("<!doctype html>") if tab == "Page" else text.rstrip() == shown


def test_file_that_is_no_snapshot_is_explained(editor: Editor) -> None:
    said = editor.open(BAD).text_content("#said")
    assert said.startswith(f"memreplay: error: {BAD}: ")


def test_file_that_is_gone_is_explained(editor: Editor) -> None:
    said = editor.open("gone.pkl").text_content("#said")
    assert said == "memreplay: error: can't open gone.pkl: it doesn't exist any more"
    # The browser reports the missing file as well.
    editor.tab.problems = [one for one in editor.tab.problems if "404" not in one]


@pytest.mark.parametrize("theme, dark", [("vscode-light", False), ("vscode-dark", True)])
def test_page_is_as_dark_as_the_editor(editor: Editor, theme: str, dark: bool) -> None:
    frame = editor.open(EXAMPLE.name, theme=theme)
    red = "() => Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    assert (frame.evaluate(red) < 128) is dark
    inner = shown(frame)
    inner.wait_for_function(f"(dark) => globalThis.memreplay && ({red})() < 128 === dark", arg=dark)
    frame.evaluate("() => { document.body.dataset.vscodeThemeKind = 'vscode-high-contrast'; }")
    for one in (frame, inner):
        one.wait_for_function(f"() => ({red})() < 128")


def test_other_frames_cannot_hand_over_files(editor: Editor) -> None:
    """The interactive page runs in a frame with another origin."""
    frame = editor.open(EXAMPLE.name)
    inner = shown(frame)
    inner.evaluate("() => parent.postMessage({ what: 'failed', reason: 'forged' }, '*')")
    editor.tab.page.wait_for_timeout(200)
    assert frame.text_content("#said") == ""
