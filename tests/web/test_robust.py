"""Odd names, huge outputs and files that change leave a page that works and says what's wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import ChromiumTab, url_of
from tests.conftest import ROOT
from tests.web.app import PATIENCE_MS, App
from tests.web.conftest import SINGLE, endless, native

pytestmark = pytest.mark.browser

EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"
OTHER = ROOT / "examples" / "transformer_deeper.pkl.gz"


def choose(app: App, name: str, data: bytes = EXAMPLE.read_bytes()) -> None:
    """Choose a file with a name that a disk may not allow."""
    file = {"name": name, "mimeType": "application/octet-stream", "buffer": data}
    app.page.set_input_files("#choose", [file])
    app.settle()


@pytest.mark.parametrize(
    "name, word",
    [
        ("two\nlines.pkl", "two_lines.pkl"),
        ("tab\t\x1b[31m\0.pkl", "'tab__[31m_.pkl'"),
        ("..", "snapshot"),
        ("-x.pkl", "./-x.pkl"),
        ("it's.pkl", "'it'\\''s.pkl'"),
        ("\u202egnp.pkl", "'\u202egnp.pkl'"),
        ("é" * 120 + ".pkl", f"'{'é' * 30}…{'é' * 11}.pkl'"),
    ],
)
def test_odd_name(empty: App, name: str, word: str) -> None:
    """The line is what ran, and it works again after Enter."""
    choose(empty, name)
    empty.frame()
    empty.press("Peak")
    assert (empty.line, empty.said) == (f"memreplay peak {word}", "")
    text = empty.text
    empty.run(empty.line)
    assert empty.text == text
    assert "5.2 GiB" in text


def test_page_does_not_replace_an_open_page(empty: App) -> None:
    choose(empty, "snap.html")
    assert empty.line == "memreplay view snap.html -o snap-2.html"
    empty.frame()
    choose(empty, "snap.pickle")
    assert empty.line == "memreplay view snap.pickle -o snap-2.html"
    empty.press("Export")
    empty.page.select_option("[data-option='-o']", ".pickle")
    empty.settle()
    assert empty.line == "memreplay export snap.pickle -o snap-2.pickle"
    assert empty.page.inner_text("#written a") == "Save snap-2.pickle"


def test_file_and_folder_of_one_name(empty: App, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for rank in range(3):
        (tmp_path / "a" / f"rank{rank}.pkl.gz").write_bytes(EXAMPLE.read_bytes())
    choose(empty, "a")
    empty.page.set_input_files("#folder", str(tmp_path / "a"))
    empty.settle()
    empty.press("Ranks")
    assert empty.line == "memreplay fleet " + " ".join(f"a-2/rank{i}.pkl.gz" for i in range(3))
    assert "3 ranks" in empty.text
    choose(empty, "a-2")
    empty.press("Peak")
    assert empty.line == "memreplay peak a-2-2"
    assert empty.text.startswith("a-2-2")


@pytest.mark.parametrize("name", ["-a b.pkl.gz", "-it's.pkl.gz"])
def test_reopened_file_is_read_again(empty: App, name: str) -> None:
    choose(empty, name)
    empty.press("Peak")
    first = empty.text
    empty.close_all()
    choose(empty, name, OTHER.read_bytes())
    empty.press("Peak")
    assert empty.text not in ("", first)


def test_only_the_beginning_of_a_long_text_is_shown(empty: App, tmp_path: Path) -> None:
    empty.open(EXAMPLE)
    empty.run("memreplay export transformer_step.pkl.gz --from 1 --to 900 --json")
    assert len(empty.text) < 600_000
    assert empty.text.endswith(": Save has all of it.")
    saved = empty.saved(tmp_path)
    line = "memreplay export transformer_step.pkl.gz --from 1 --to 900 -o native.json"
    (tmp_path / EXAMPLE.name).symlink_to(EXAMPLE)
    native(line, tmp_path, 80)
    assert saved.name == "transformer_step-export.json"
    assert saved.read_text().rstrip() == (tmp_path / "native.json").read_text().rstrip()


def test_long_error_leaves_room(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.run(f"memreplay peak transformer_step.pkl.gz --include '{'(' * 50_000}'")
    assert len(empty.said) > 50_000
    assert empty.tab.evaluate("() => document.querySelector('main').clientHeight") > 200
    empty.press("Page")
    empty.frame()


def test_binary_output_is_a_download(empty: App, tmp_path: Path) -> None:
    empty.open(EXAMPLE)
    empty.run("memreplay export transformer_step.pkl.gz --from 1 --to 3 --format pickle")
    assert "error" not in empty.said
    with empty.page.expect_download() as waiting:
        empty.page.click("#written a")
    waiting.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes().startswith(b"\x80")


@pytest.mark.parametrize("changed", [False, True])
def test_file_that_changed_or_went_is_explained(empty: App, tmp_path: Path, changed: bool) -> None:
    file = tmp_path / "snap.pkl.gz"
    file.write_bytes(EXAMPLE.read_bytes())
    empty.open(file)
    if changed:
        file.write_bytes(OTHER.read_bytes())
    else:
        file.unlink()
    # What was read before is still there.
    empty.press("Peak")
    assert "5.2 GiB" in empty.text
    empty.run("memreplay peak snap.pkl.gz --from 5")
    words = "the file changed, or was removed, after you opened it; close it, and open it again"
    assert empty.said == f"memreplay: error: snap.pkl.gz: {words}"
    empty.open(OTHER)
    empty.frame()


@pytest.mark.parametrize("path", ["/x.json", "../x.json", "/tmp/x.json", "~/x.json"])
def test_file_is_not_written_where_nobody_gets_it(empty: App, path: str) -> None:
    empty.open(EXAMPLE)
    empty.run(f"memreplay export transformer_step.pkl.gz --from 1 --to 3 -o {path}")
    assert empty.said.startswith("memreplay: error: ")
    assert empty.said.count("\n") == 0


def test_standard_input_is_empty(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.run("memreplay peak -")
    assert empty.said.startswith("memreplay: error: standard input: the file is empty")


def test_reading_beforehand_is_not_shown(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "cut.pkl"
    file.write_bytes(gzip.decompress(EXAMPLE.read_bytes())[:-1000])
    empty.open(file)
    empty.page.wait_for_timeout(500)
    assert not empty.page.is_visible("#progress")
    assert empty.page.inner_text("#status") == ""


def test_stop_ends_what_waits_as_well(empty: App, tmp_path: Path) -> None:
    empty.page.set_input_files("#choose", [str(endless(tmp_path))])
    for tab in ("Peak", "Report"):
        empty.page.click(f"[role=tab]:text-is('{tab}')")
    empty.page.click("#stop")
    empty.page.wait_for_selector("body[data-state=ready]", timeout=1000)
    assert empty.page.inner_text("#status") == "Stopped"
    empty.open(EXAMPLE)
    empty.frame()


DROP_FOLDER = """async () => {
  const entry = { isDirectory: true, name: 'a', createReader: () => ({ readEntries: READ }) };
  const item = { kind: 'file', webkitGetAsEntry: () => entry, getAsFile: () => null };
  const event = new Event('drop', { bubbles: true });
  Object.defineProperty(event, 'dataTransfer', { value: { items: [item] } });
  document.body.dispatchEvent(event);
  await new Promise((done) => setTimeout(done, 50));
}"""


@pytest.mark.parametrize(
    "read, words",
    [
        ("(done) => done([])", "there are no files in this"),
        ("(_, failed) => failed(new DOMException('no'))", "can't read what was dropped: no"),
    ],
)
def test_folder_without_readable_files_is_explained(empty: App, read: str, words: str) -> None:
    empty.tab.evaluate(DROP_FOLDER.replace("READ", read))
    assert empty.said.startswith(f"memreplay: error: {words}")


def test_worker_that_broke_is_replaced(empty: App) -> None:
    empty.open(EXAMPLE)
    error = "new RangeError('Array buffer allocation failed')"
    empty.page.workers[0].evaluate(f"() => {{ setTimeout(() => {{ throw {error}; }}); }}")
    said = empty.page.wait_for_selector("#said.error:not([hidden])").inner_text()
    assert "Array buffer allocation failed" in said
    assert "Read a part with --from and --to" in said
    empty.tab.problems.clear()
    empty.press("Peak")
    assert "5.2 GiB" in empty.text


@pytest.mark.parametrize(
    "script, reason",
    [
        ("Worker = class { constructor() { throw new Error('no workers') } }", "no workers"),
        ("delete globalThis.DecompressionStream", "DecompressionStream is not defined"),
    ],
)
def test_browser_that_cannot_run_it_is_told(chromium: Any, script: str, reason: str) -> None:
    """Also after a file was chosen, which otherwise would wait for ever."""
    if not SINGLE.exists():
        pytest.skip("the page isn't built: ci/web builds it")
    tab = ChromiumTab(chromium.new_context().new_page())
    page = tab.page
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(script)
    tab.goto(url_of(SINGLE))
    words = f"memreplay: error: this browser can't run memreplay ({reason}); try a current one"
    for _ in range(2):
        page.wait_for_selector("#said:not([hidden])")
        assert page.text_content("#said") == words
        page.set_input_files("#choose", [str(EXAMPLE)])
        page.wait_for_selector("body[data-state=ready]")
    assert tab.problems == []
    page.context.close()
