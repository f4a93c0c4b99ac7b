"""Settings, downloads and the list of files do what they say."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
import zstandard

from tests.bad_files import viewer_page
from tests.conftest import ROOT
from tests.web.app import App
from tests.web.conftest import native

pytestmark = pytest.mark.browser

EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"
OTHER = ROOT / "examples" / "transformer_deeper.pkl.gz"


def test_saved_page_is_what_view_writes(empty: App, tmp_path: Path) -> None:
    empty.open(EXAMPLE)
    saved = empty.saved(tmp_path)
    (tmp_path / EXAMPLE.name).symlink_to(EXAMPLE)
    native("memreplay view transformer_step.pkl.gz -o native.html", tmp_path, 80)
    assert saved.name == "transformer_step.html"
    assert saved.read_bytes() == (tmp_path / "native.html").read_bytes()


def test_saved_report_is_its_text(empty: App, tmp_path: Path) -> None:
    empty.open(EXAMPLE)
    empty.press("Report")
    saved = empty.saved(tmp_path)
    assert saved.name == "transformer_step-report.txt"
    assert saved.read_text().rstrip() == empty.text


EXPORTS = {
    ".speedscope.json": "export transformer_step.pkl.gz",
    ".txt": "export transformer_step.pkl.gz",
    ".pickle": "export transformer_step.pkl.gz",
    "-timeline.csv": "timeline transformer_step.pkl.gz --format csv",
}


@pytest.mark.parametrize("ending", EXPORTS)
def test_export_is_a_download(empty: App, tmp_path: Path, ending: str) -> None:
    empty.open(EXAMPLE)
    empty.press("Export")
    empty.page.select_option("[data-option='-o']", ending)
    empty.settle()
    assert empty.line == f"memreplay {EXPORTS[ending]} -o transformer_step{ending}"
    with empty.page.expect_download() as waiting:
        empty.page.click("#written a")
    waiting.value.save_as(tmp_path / "saved")
    (tmp_path / EXAMPLE.name).symlink_to(EXAMPLE)
    native(empty.line, tmp_path, 80)
    written = tmp_path / f"transformer_step{ending}"
    assert (tmp_path / "saved").read_bytes() == written.read_bytes()


def test_output_never_replaces_an_open_file(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "snap.pickle"
    file.write_bytes(gzip.decompress(EXAMPLE.read_bytes()))
    other = tmp_path / "snap.html"
    other.write_bytes(viewer_page(file.read_bytes()))
    empty.open(other)
    assert empty.line == "memreplay view snap.html -o snap-2.html"
    empty.open(file)
    assert empty.line == "memreplay view snap.pickle -o snap-2.html"
    assert empty.saved(tmp_path).name == "snap-2.html"
    empty.press("Export")
    empty.page.select_option("[data-option='-o']", ".pickle")
    empty.settle()
    assert empty.said.startswith("memreplay: wrote snap-2.pickle")


def test_settings_are_options(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.press("Simulate")
    empty.page.fill("[data-option='--set']", "expandable_segments:True")
    empty.page.press("[data-option='--set']", "Tab")
    empty.settle()
    empty.page.fill("[data-option='--total-memory']", "24GiB,16GiB")
    empty.page.press("[data-option='--total-memory']", "Tab")
    empty.settle()
    line = "memreplay simulate transformer_step.pkl.gz --set expandable_segments:True"
    assert empty.line == f"{line} --total-memory 24GiB,16GiB"
    assert empty.text == native(empty.line, EXAMPLE.parent, empty.columns).rstrip()
    empty.press("Peak")
    empty.page.select_option("[data-option='--by']", "line")
    empty.settle()
    empty.page.check("[data-option='--tree']")
    empty.settle()
    assert empty.line == "memreplay peak transformer_step.pkl.gz --by line --tree"


@pytest.mark.parametrize(
    "tab, words",
    [
        ("Moment", "at {} end"),
        ("Gate", "gate {} --forbid oom"),
        ("Allocations", "allocations {}"),
    ],
)
def test_command_answers_at_once(empty: App, tab: str, words: str) -> None:
    empty.open(EXAMPLE)
    empty.press(tab)
    assert empty.line == f"memreplay {words.format(EXAMPLE.name)}"
    assert empty.text + empty.said == native(empty.line, EXAMPLE.parent, empty.columns).rstrip()


def test_moment_is_a_setting(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.press("Moment")
    empty.page.fill("[data-option='']", "step:2:peak")
    empty.page.press("[data-option='']", "Tab")
    empty.settle()
    assert empty.line == "memreplay at transformer_step.pkl.gz step:2:peak"
    assert "step 2" in empty.text


def test_gate_of_two_files_measures_growth(empty: App) -> None:
    empty.open(EXAMPLE, OTHER)
    empty.press("Gate")
    assert empty.line == f"memreplay gate --base {EXAMPLE.name} {OTHER.name} --max-growth 2%"
    assert empty.text.startswith("FAIL peak held grew by 317.6 MiB (6.0%)")


def test_help_is_the_page_about_the_command(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.press("Leaks")
    empty.page.click("#help")
    empty.settle()
    assert empty.text == (ROOT / "docs" / "leaks.md").read_text().rstrip()
    empty.press("Leaks")
    assert empty.text.startswith("transformer_step.pkl.gz")


def test_settings_stay_for_the_next_file(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.press("Peak")
    empty.page.uncheck("[data-option='--tree']")
    empty.settle()
    empty.page.select_option("[data-option='--by']", "line")
    empty.settle()
    empty.open(OTHER)
    empty.press("Peak")
    assert empty.line == "memreplay peak transformer_deeper.pkl.gz --by line"
    assert empty.text.startswith("transformer_deeper.pkl.gz")
    empty.page.select_option("[data-option='--by']", "")
    empty.settle()
    assert empty.line == "memreplay peak transformer_deeper.pkl.gz"


def test_chosen_files_are_compared_and_swapped(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.open(OTHER)
    empty.page.check(f"#files li:has-text('{EXAMPLE.name}') input")
    empty.settle()
    empty.press("Differences")
    assert empty.line == f"memreplay diff {EXAMPLE.name} {OTHER.name}"
    empty.page.click("#swap")
    empty.settle()
    assert empty.line == f"memreplay diff {OTHER.name} {EXAMPLE.name}"


DROP = """async ([name, text]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const dropped = new DataTransfer();
  dropped.items.add('a link', 'text/plain');
  dropped.items.add(new File([bytes], name));
  document.body.dispatchEvent(new DragEvent('dragover', { bubbles: true }));
  document.body.dispatchEvent(
    new DragEvent('drop', { dataTransfer: dropped, bubbles: true, cancelable: true }));
  await new Promise((done) => setTimeout(done, 50));
}"""


def drop(app: App, file: Path) -> None:
    """Drop a file on the page."""
    app.tab.evaluate(DROP, [file.name, b64encode(file.read_bytes()).decode()])
    app.settle()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        archive.writestr("snap.pkl", data)
    return out.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "snap.pkl": bytes,
    "snap.pkl.gz": gzip.compress,
    "snap.pkl.zst": zstandard.compress,
    "snap.pkl.xz": lzma.compress,
    "snap.pkl.bz2": bz2.compress,
    "snap.zip": zipped,
    "trace_plot.html": viewer_page,
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_file_is_opened(empty: App, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(PACKED[name](gzip.decompress(EXAMPLE.read_bytes())))
    drop(empty, file)
    peak = empty.frame().get_attribute("[data-what=peak-bytes]", "data-bytes")
    assert peak == "5586941980"
    empty.press("Peak")
    assert empty.text == native(empty.line, tmp_path, empty.columns).rstrip()


def test_dropped_file_is_opened(empty: App) -> None:
    drop(empty, EXAMPLE)
    assert empty.line == "memreplay view transformer_step.pkl.gz -o transformer_step.html"
    assert "transformer_step" in empty.frame().title()
    assert not empty.page.query_selector("body.over")


def test_folder_is_a_run(empty: App) -> None:
    folder = ROOT / "examples" / "fsdp_ranks"
    empty.page.set_input_files("#folder", str(folder))
    empty.settle()
    empty.press("Ranks")
    assert "fsdp_ranks/rank0.pkl.gz" in empty.line
    assert empty.text == native(empty.line, folder.parent, empty.columns).rstrip()


def test_closed_files_are_gone(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.close_all()
    assert empty.page.is_visible("#welcome")
    empty.open(OTHER)
    empty.run(f"memreplay peak {EXAMPLE.name}")
    assert empty.said == f"memreplay: error: {EXAMPLE.name}: no such file"


def test_page_keeps_its_state_behind_other_tabs(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.frame().evaluate("() => memreplay.set({ measure: 'reserved' })")
    empty.press("Peak")
    assert not empty.page.is_visible("#page")
    empty.press("Page")
    assert empty.frame().evaluate("() => memreplay.state().measure") == "reserved"


def test_welcome_explains_itself(empty: App) -> None:
    assert empty.page.is_visible("#welcome")
    assert "Nothing leaves this computer" in empty.page.inner_text("#welcome")
    assert not empty.page.is_visible("#command")
