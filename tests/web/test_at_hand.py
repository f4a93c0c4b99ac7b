"""Mouse and keyboard do what a person expects."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.bad_files import viewer_page
from tests.conftest import ROOT
from tests.web.app import App
from tests.web.conftest import native

pytestmark = pytest.mark.browser

EXAMPLES = ROOT / "examples"
STEP = EXAMPLES / "transformer_step.pkl.gz"
DEEPER = EXAMPLES / "transformer_deeper.pkl.gz"
OOM = EXAMPLES / "serving_oom.pkl.gz"


def status(app: App) -> str:
    """Return what the page says about the work."""
    return str(app.page.inner_text("#status"))


def test_enter_in_a_setting_runs_the_line(empty: App) -> None:
    empty.open(OOM)
    empty.press("Simulate")
    empty.page.click("[data-option='--set']")
    empty.page.keyboard.type("expandable_segments:True")
    empty.page.keyboard.press("Enter")
    empty.settle()
    assert empty.line == f"memreplay simulate {OOM.name} --set expandable_segments:True"
    assert empty.text == native(empty.line, EXAMPLES, empty.columns).rstrip()
    empty.page.keyboard.press("Enter")  # nothing has changed
    empty.settle()
    assert empty.text


def test_page_saved_from_pytorchs_viewer_is_opened(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "from_viewer.html"
    file.write_bytes(viewer_page(gzip.decompress(STEP.read_bytes())))
    empty.open(file)
    assert empty.line == "memreplay view from_viewer.html -o from_viewer-2.html"
    assert not empty.said
    assert "from_viewer" in empty.frame().title()


def test_export_does_not_take_the_snapshots_name(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "step.pickle"
    file.write_bytes(gzip.decompress(STEP.read_bytes()))
    empty.open(file)
    empty.press("Export")
    empty.page.select_option("[data-option='-o']", ".pickle")
    empty.settle()
    assert empty.line == "memreplay export step.pickle -o step-2.pickle"
    assert empty.page.inner_text("#written a") == "Save step-2.pickle"


def test_refused_file_leaves_no_progress_behind(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "cut.pkl"
    file.write_bytes(gzip.decompress(STEP.read_bytes())[:1_000_000])
    empty.open(file)
    empty.page.wait_for_timeout(500)
    assert "cut off" in empty.said
    assert "Reading" not in status(empty)
    assert not empty.page.is_visible("#progress")


def test_cut_off_file_is_read_with_one_click(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "cut.pkl"
    file.write_bytes(gzip.decompress(STEP.read_bytes())[:1_000_000])
    empty.open(file)
    assert "--salvage" in empty.said
    empty.page.click("#salvage")
    empty.settle()
    assert empty.line == "memreplay view cut.pkl --salvage -o cut.html"
    assert empty.frame().title() == "cut.pkl"
    empty.press("Peak")
    assert empty.line == "memreplay peak cut.pkl --salvage"
    assert "cut off" in empty.text


def test_file_that_stays_open_is_shown(empty: App) -> None:
    empty.open(STEP)
    empty.open(OOM)
    empty.page.click(f"[aria-label='Close {OOM.name}']")
    empty.settle()
    assert STEP.name in empty.line
    assert not empty.page.is_visible("#welcome")


def test_name_shows_only_that_file(empty: App) -> None:
    empty.open(OOM)
    empty.open(*sorted((EXAMPLES / "fsdp_odd_ranks").iterdir()))
    assert not empty.page.is_visible("#all")
    empty.page.click("#files button:has-text('rank5.pkl.gz')")
    empty.settle()
    assert empty.line == "memreplay view rank5.pkl.gz -o rank5.html"
    empty.page.click("text=Back to 8 files")
    empty.settle()
    assert empty.line.startswith("memreplay fleet rank0.pkl.gz rank1.pkl.gz")
    assert OOM.name not in empty.line
    assert not empty.page.is_visible("#all")
    empty.close_all()
    assert not empty.page.is_visible("#all")


def test_suggested_command_runs_with_a_click(empty: App) -> None:
    empty.open(OOM)
    empty.press("Report")
    text = empty.text
    empty.page.click(f"#text a:has-text('memreplay oom {OOM.name}')")
    empty.settle()
    assert empty.line == f"memreplay oom {OOM.name}"
    assert empty.page.inner_text("[aria-selected=true]") == "Out of memory"
    empty.press("Report")
    assert empty.text == text == native(empty.line, EXAMPLES, empty.columns).rstrip()


def test_settings_are_those_of_the_line(empty: App) -> None:
    empty.open(STEP)
    empty.press("Report")
    empty.run(f"memreplay peak {STEP.name} --top 3")
    assert empty.page.inner_text("[aria-selected=true]") == "Peak"
    assert empty.page.is_visible("[data-option='--measure']")
    assert empty.line == f"memreplay peak {STEP.name} --top 3"
    empty.press("Page")
    empty.page.click("#run")
    empty.settle()
    assert empty.page.inner_text("[aria-selected=true]") == "Page"


def test_arrow_keys_choose_tabs(empty: App) -> None:
    empty.open(STEP)
    empty.page.focus("[role=tab][aria-selected=true]")
    for key, tab in (("ArrowRight", "Report"), ("End", "Export"), ("Home", "Page")):
        empty.page.keyboard.press(key)
        assert empty.tab.evaluate("() => document.activeElement.textContent") == tab
        empty.page.keyboard.press("Enter")
        empty.settle()
        assert empty.page.inner_text("[aria-selected=true]") == tab
    # Tab leaves the tabs.
    empty.page.keyboard.press("Tab")
    assert empty.tab.evaluate("() => document.activeElement.id") == "line"


def test_title_names_the_files(empty: App) -> None:
    assert empty.page.title() == "memreplay"
    empty.open(STEP)
    assert empty.page.title() == f"{STEP.name} – memreplay"
    empty.open(STEP, DEEPER)
    assert empty.page.title().count(" and ") == 1


def drop(app: App, path: Path, target: str) -> None:
    """Drop a file or a folder on an element, as the system does."""
    box = app.page.query_selector(target).bounding_box()
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    dragged = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    session = app.page.context.new_cdp_session(app.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, **at, "data": dragged})
    session.detach()


def test_dropped_folder_is_opened_from_the_disk(empty: App) -> None:
    drop(empty, EXAMPLES / "fsdp_ranks", "#welcome h2")
    empty.page.wait_for_selector("#files :text('rank3.pkl.gz')")
    empty.settle()
    ranks = " ".join(f"fsdp_ranks/rank{one}.pkl.gz" for one in range(4))
    assert empty.line == f"memreplay fleet {ranks} --write html=fleet.html"


def test_folder_dropped_on_the_interactive_page_is_explained(empty: App) -> None:
    empty.open(STEP)
    empty.frame()
    drop(empty, EXAMPLES / "fsdp_ranks", "#page")
    empty.page.wait_for_selector("#said:has-text('Open folder')")


def test_file_dropped_on_the_interactive_page_is_opened(empty: App) -> None:
    empty.open(STEP)
    empty.frame()
    drop(empty, OOM, "#page")
    empty.page.wait_for_selector(f"#files :text('{OOM.name}')")
    empty.settle()
    assert OOM.name in empty.line


def test_folder_opens_its_snapshots_in_order(empty: App, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("rank10.pkl.gz", "rank2.pkl.gz", "rank1.pkl.gz"):
        (folder / name).write_bytes((EXAMPLES / "fsdp_ranks" / "rank1.pkl.gz").read_bytes())
    for name in ("train.log", "train.py", "config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    empty.page.set_input_files("#folder", str(folder))
    empty.settle()
    ranks = "run/rank1.pkl.gz run/rank2.pkl.gz run/rank10.pkl.gz"
    assert empty.line == f"memreplay fleet {ranks} --write html=fleet.html"
    assert empty.said == ""
    assert status(empty).startswith("Done in ")


def test_folder_without_snapshots_is_explained(empty: App, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.log").write_text("loss")
    empty.page.set_input_files("#folder", str(tmp_path / "run"))
    assert empty.said.startswith("memreplay: error: no snapshots in this folder")
    assert empty.page.is_visible("#welcome")


def test_moment_is_a_word(empty: App) -> None:
    empty.open(OOM)
    empty.press("Moment")
    assert empty.line == f"memreplay at {OOM.name} end"
    empty.page.fill("[data-option='']", "oom:2")
    empty.page.press("[data-option='']", "Enter")
    empty.settle()
    assert empty.line == f"memreplay at {OOM.name} oom:2"
    assert empty.text == native(empty.line, EXAMPLES, empty.columns).rstrip()


def test_compared_files_are_called_base_and_new(empty: App) -> None:
    empty.open(STEP, DEEPER)
    roles = "() => [...document.querySelectorAll('#files li')].map((one) => one.dataset.role)"
    assert empty.tab.evaluate(roles) == ["base", "new"]
    empty.page.click("#swap")
    empty.settle()
    assert empty.tab.evaluate(roles) == ["base", "new"]
    assert empty.line.startswith(f"memreplay view {DEEPER.name} {STEP.name}")
    empty.page.click(f"[aria-label='Close {STEP.name}']")
    empty.settle()
    assert empty.tab.evaluate(roles) == [""]


def test_checkpointed_allocations_can_be_chosen(empty: App) -> None:
    empty.open(STEP)
    empty.press("Simulate")
    empty.page.fill("[data-option='--only']", "category=activations")
    empty.page.press("[data-option='--only']", "Tab")
    empty.page.check("[data-option='--checkpoint']")
    empty.settle()
    # Other tests' settings stay.
    assert empty.line.endswith(" --only category=activations --checkpoint")
    assert empty.said == ""


def test_copy_says_that_it_copied(empty: App) -> None:
    empty.open(STEP)
    empty.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    empty.page.click("#copy")
    empty.page.wait_for_selector("#copy:text-is('Copied')")
    empty.page.wait_for_selector("#copy:text-is('Copy')")


def test_example_opens_with_a_click(empty: App) -> None:
    empty.page.click("#example")
    empty.settle()
    assert empty.line == f"memreplay view {OOM.name} -o serving_oom.html"
    empty.press("Report")
    assert empty.text == native(empty.line, EXAMPLES, empty.columns).rstrip()


def test_start_page_says_how_to_record(empty: App) -> None:
    lines = "() => document.querySelector('#welcome pre').textContent"
    readme = (ROOT / "README.md").read_text()
    assert empty.tab.evaluate(lines).strip() in readme
    empty.page.click("#welcome summary")  # doesn't ask for files
    assert empty.page.is_visible("#welcome pre")
    empty.page.click("#welcome summary")
