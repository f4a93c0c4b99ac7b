"""Damaged and hostile files, wrong lines and stopped work end in words, not in tracebacks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.web.app import App
from tests.web.conftest import OpenApp, endless

pytestmark = pytest.mark.browser

EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"
# A pickle that calls print("hit").
CALL = b"cbuiltins\nprint\n(S'hit'\ntR."


def test_pickle_that_runs_code_is_refused(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "evil.pkl"
    file.write_bytes(CALL)
    empty.open(file)
    assert empty.said.startswith("memreplay: error: evil.pkl: ")
    assert "builtins.print" in empty.said
    assert "Traceback" not in empty.said
    assert empty.said.count("\n") == 0


@pytest.mark.parametrize("name", ["empty.pkl", "photo.png"])
def test_other_file_is_refused(empty: App, tmp_path: Path, name: str) -> None:
    data = b"" if name == "empty.pkl" else b"\x89PNG\r\n\x1a\n" + bytes(99)
    (tmp_path / name).write_bytes(data)
    empty.open(tmp_path / name)
    assert empty.said.startswith(f"memreplay: error: {name}: ")
    assert empty.said.count("\n") == 0


def test_cut_off_file_is_read_with_salvage(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "cut.pkl"
    file.write_bytes(gzip.decompress(EXAMPLE.read_bytes())[:1_000_000])
    empty.open(file)
    assert "--salvage" in empty.said
    empty.run("memreplay peak cut.pkl --salvage")
    assert "cut off" in empty.text


def test_hostile_name_is_only_text(empty: App, tmp_path: Path) -> None:
    file = tmp_path / "<img src=x onerror=alert(1)>' $(id) .pkl"
    file.write_bytes(EXAMPLE.read_bytes())
    empty.open(file)
    empty.press("Peak")
    assert empty.text.startswith(file.name)
    assert empty.page.query_selector("img") is None


def test_two_files_of_one_name_are_told_apart(empty: App, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / EXAMPLE.name
    other.write_bytes((EXAMPLE.parent / "transformer_deeper.pkl.gz").read_bytes())
    empty.open(EXAMPLE)
    empty.open(other)
    empty.press("Peak")
    assert empty.line == "memreplay peak transformer_step-2.pkl.gz"


def test_unknown_option_is_explained(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.run("memreplay peak transformer_step.pkl.gz -o out.txt")
    assert empty.said.startswith("memreplay: error: memreplay peak has no option -o; report, ")


def test_end_of_the_heap_is_explained(started: OpenApp, tmp_path: Path) -> None:
    app = started()
    worker = app.page.workers[0]
    worker.evaluate("() => { WebAssembly.Memory.prototype.grow = () => { throw new Error(); }; }")
    file = tmp_path / "large.pkl"
    keys = b"".join(b"U%c%sq%c" % (len(one), one, i) for i, one in enumerate((b"addr", b"size")))
    event = b"}(h\x00J\x00\x02\x00\x00h\x01J\x00\x02\x00\x00u"
    file.write_bytes(
        b"\x80\x02" + keys + b"00}U\x0ddevice_traces](](" + event * 3_000_000 + b"ees."
    )
    app.open(file)
    assert app.said.startswith("memreplay: error: large.pkl: not enough memory to read it; ")
    app.close_all()
    app.open(EXAMPLE)
    app.press("Peak")
    assert app.text.startswith("transformer_step.pkl.gz")


def test_worker_that_ends_is_explained(started: OpenApp) -> None:
    app = started()
    app.open(EXAMPLE)
    worker = app.page.workers[0]
    worker.evaluate("() => { performance.now = () => { throw new Error('gone'); }; }")
    app.run("memreplay summary transformer_step.pkl.gz")
    assert app.said.startswith("memreplay: error: the browser ended this (")
    assert app.said.endswith(
        "report it with this line: https://github.com/memreplay/memreplay/issues"
    )
    app.press("Peak")
    assert app.text.startswith("transformer_step.pkl.gz")


def test_command_that_needs_a_terminal_is_explained(empty: App) -> None:
    empty.open(EXAMPLE)
    empty.run("memreplay explore transformer_step.pkl.gz")
    assert "explore doesn't work in a browser; install memreplay" in empty.said


def test_stopped_line_leaves_a_working_page(empty: App, tmp_path: Path) -> None:
    empty.page.set_input_files("#choose", [str(endless(tmp_path))])
    empty.page.wait_for_selector("#progress:not([hidden])")
    assert empty.page.inner_text("#status") == "Reading endless.pkl.gz"
    empty.page.click("#stop")
    empty.settle()
    assert empty.page.inner_text("#status") == "Stopped"
    empty.open(EXAMPLE)
    empty.press("Peak")
    assert empty.text.startswith("transformer_step.pkl.gz")
