"""Tests of commands/view/command.py, from reading snapshots to writing the page."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.view import find, writing
from memreplay.render import units
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.view.pages import columns, records

CUT_OFF = "the snapshot is cut off, so these numbers cover only its intact part"


def snapshot(*sizes: int, device: int = 0) -> bytes:
    builder = SnapshotBuilder(devices=device + 1)
    for i, size in enumerate(sizes):
        builder.alloc(0x1000 * (i + 1), size, device=device, frames=[(f"f{i}", "a/f.py", i)])
    return build.dump(builder.build())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder in which commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snap.pkl").write_bytes(snapshot(64, 128))
    return tmp_path


def ask(runner: CliRunner, *arguments: str, **more: Any) -> Result:
    return runner.invoke(app, ["view", *arguments], **more)


def said(page: str, *what: str) -> str:
    """Return the expected line about a written page."""
    n_bytes = units.size(os.path.getsize(page))
    return f"memreplay: wrote {page}: {', '.join((n_bytes, *what))}; open it in a browser\n"


def left(folder: Path) -> list[str]:
    return sorted(os.path.relpath(one, folder) for one in folder.rglob("*") if one.is_file())


def test_page_of_a_file_is_written(runner: CliRunner, here: Path) -> None:
    done = ask(runner, "snap.pkl")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == said("snap.html", "2 allocations")
    html = Path("snap.html").read_bytes()
    page = records(html)
    assert (page["schema"], page["kind"], page["title"]) == ("memreplay.page/1", "one", "snap.pkl")
    (data,) = page["snapshots"]
    assert (data["file"], data["devices"][0]["peaks"]["requested"]["bytes"]) == ("snap.pkl", 192)
    assert [len(one) for one in columns(html)] == [data["bytes"]]
    assert left(here) == ["snap.html", "snap.pkl"]


def test_library_and_export_write_the_same_page(runner: CliRunner) -> None:
    assert ask(runner, "snap.pkl").exit_code == 0
    html = Path("snap.html").read_bytes()
    assert mr.open("snap.pkl").view().html == html
    done = runner.invoke(app, ["export", "snap.pkl", "-o", "page.html"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == said("page.html", "2 allocations")
    assert Path("page.html").read_bytes() == html
    done = runner.invoke(app, ["export", "snap.pkl", "--format", "html"])
    assert (done.stdout_bytes, done.stderr) == (html, "")


def test_existing_file_is_not_overwritten(runner: CliRunner, here: Path) -> None:
    Path("snap.html").write_text("mine")
    done = ask(runner, "snap.pkl")
    assert (done.exit_code, Path("snap.html").read_text()) == (2, "mine")
    assert done.stderr == (
        "memreplay: error: snap.html already exists; give --force to replace it\n"
    )
    assert ask(runner, "snap.pkl", "--force").exit_code == 0
    assert records(Path("snap.html").read_bytes())["title"] == "snap.pkl"
    assert left(here) == ["snap.html", "snap.pkl"]


def test_own_page_is_replaced(runner: CliRunner, here: Path) -> None:
    assert ask(runner, "snap.pkl").exit_code == 0
    Path("snap.pkl").write_bytes(snapshot(64, 128, 256))
    done = ask(runner, "snap.pkl")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == said("snap.html", "3 allocations").replace("wrote", "replaced")
    done = ask(runner, "snap.pkl", "-o", "snap.html")
    assert done.exit_code == 2
    assert "snap.html already exists; give --force to replace it" in done.stderr
    assert left(here) == ["snap.html", "snap.pkl"]


def test_snapshot_is_not_overwritten(runner: CliRunner, here: Path) -> None:
    done = ask(runner, "snap.pkl", "-o", "snap.pkl", "--force")
    assert done.exit_code == 2
    assert "cannot write snap.pkl: it's the input snapshot" in done.stderr
    assert mr.open("snap.pkl").devices == (0,)


def test_page_is_complete_or_absent(
    runner: CliRunner, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Any:
        yield b"<!doctype html>"
        raise OSError(28, "No space left on device")

    Path("page.html").write_text("mine")
    monkeypatch.setattr(writing, "page_html", failing)
    done = ask(runner, "snap.pkl", "-o", "page.html", "--force")
    assert done.exit_code == 2
    assert "can't write the output: no space left on device" in done.stderr
    assert (left(here), Path("page.html").read_text()) == (["page.html", "snap.pkl"], "mine")


def test_page_may_have_another_name(runner: CliRunner) -> None:
    Path("pages").mkdir()
    done = ask(runner, "snap.pkl", "-o", "pages/a.html")
    assert done.stderr == said("pages/a.html", "2 allocations")
    done = ask(runner, "snap.pkl", "-o", "missing/a.html")
    assert (done.exit_code, "there is no directory" in done.stderr) == (2, True)
    assert ask(runner, "snap.pkl", "-o", "pages").exit_code == 2


def test_page_may_use_standard_input_and_output(runner: CliRunner, here: Path) -> None:
    done = ask(runner, "-", "-o", "-", input=gzip.compress(snapshot(64)))
    assert (done.exit_code, done.stderr) == (0, "")
    page = records(done.stdout_bytes)
    assert page["snapshots"][0]["devices"][0]["peaks"]["requested"]["bytes"] == 64
    assert left(here) == ["snap.pkl"]
    done = ask(runner, "-", input=snapshot(64, 32))
    assert done.stderr == said("snapshot.html", "2 allocations")


def test_page_is_not_written_to_a_terminal(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    done = ask(runner, "snap.pkl", "-o", "-")
    assert done.exit_code == 2
    assert "stdout is a terminal" in done.stderr


def test_two_snapshots_are_compared(runner: CliRunner) -> None:
    Path("new.pkl.gz").write_bytes(gzip.compress(snapshot(64, 512, 32)))
    done = ask(runner, "snap.pkl", "new.pkl.gz")
    assert (done.exit_code, done.stderr) == (0, said("snap-new.html", "5 allocations"))
    page = records(Path("snap-new.html").read_bytes())
    assert (page["kind"], page["title"]) == ("compare", "snap.pkl and new.pkl.gz")
    assert [one["name"] for one in page["snapshots"]] == ["snap.pkl", "new.pkl.gz"]
    assert [block["text"] for block in page["diff"] if block["kind"] == "heading"] == [
        "snap.pkl  (base)",
        "new.pkl.gz  (new)",
        (
            "device 0: peak 192 B -> 608 B requested, +416 B (+216.7%), +416 B unknown"
            " (+384 B in f1 f.py:1)"
        ),
    ]


@pytest.fixture
def run(here: Path) -> Path:
    """Create a folder with three ranks."""
    folder = here / "run"
    folder.mkdir()
    for rank in (0, 2, 10):
        (folder / f"rank{rank}.pkl").write_bytes(snapshot(*range(1, rank + 2)))
    return folder


def test_ranks_are_on_one_page(runner: CliRunner, run: Path) -> None:
    done = ask(runner, "run/")
    assert (done.exit_code, done.stdout) == (0, "")
    outlier = (
        "memreplay: outlier: rank 10: 66 B, +60 B compared with rank 2; +11 B in f10 f.py:10\n"
    )
    assert done.stderr == outlier + said("run.html", "3 ranks", "15 allocations")
    html = Path("run.html").read_bytes()
    page = records(html)
    assert (page["kind"], page["title"], page["diff"]) == ("ranks", "run", None)
    assert [(one["name"], one["file"]) for one in page["snapshots"]] == [
        ("rank 0", "run/rank0.pkl"),
        ("rank 2", "run/rank2.pkl"),
        ("rank 10 (outlier)", "run/rank10.pkl"),
    ]
    assert [len(one) for one in columns(html)] == [one["bytes"] for one in page["snapshots"]]


def test_unreadable_ranks_are_left_out(runner: CliRunner, run: Path) -> None:
    (run / "rank2.pkl").write_bytes(snapshot(64)[:-100])
    (run / "rank3.pkl").write_bytes(b"nothing")
    (run / "other.pkl").write_bytes(snapshot(64))
    done = ask(runner, "run")
    assert done.exit_code == 4
    lines = done.stderr.splitlines()
    assert lines[0].startswith("memreplay: error: run/rank2.pkl: ")
    assert lines[1].startswith("memreplay: error: run/rank3.pkl: ")
    assert lines[2] == ("memreplay: run/other.pkl is left out because its name has no rank")
    assert f"{lines[3]}\n" == said("run.html", "2 ranks", "12 allocations")
    done = ask(runner, "run", "--force", "--salvage")
    assert done.exit_code == 3
    assert f"memreplay: rank 2: {CUT_OFF}\n" in done.stderr


def test_error_if_no_rank_can_be_read(runner: CliRunner, run: Path) -> None:
    for file in run.iterdir():
        file.write_bytes(b"nothing")
    done = ask(runner, "run")
    assert (done.exit_code, done.stderr.count("\n")) == (3, 3)
    assert not Path("run.html").exists()


def test_folder_of_tables_is_one_snapshot(runner: CliRunner) -> None:
    pytest.importorskip("pyarrow")
    assert runner.invoke(app, ["export", "snap.pkl", "-o", "tables/"]).exit_code == 0
    done = ask(runner, "tables/")
    assert done.stderr == said("tables.html", "2 allocations")
    assert records(Path("tables.html").read_bytes())["kind"] == "one"


@pytest.mark.parametrize(
    "arguments, exit_code, words",
    [
        ((), 2, "missing argument 'FILE [FILE2]'"),
        (
            ("a.pkl", "b.pkl", "c.pkl"),
            2,
            "give one file, two to compare, or a folder of rank files",
        ),
        (
            ("-", "-"),
            2,
            "only one snapshot can come from standard input; give a file for the other",
        ),
        (("snap.pkl", "-o", "-", "--open"), 2, "--open needs a file; leave out -o -"),
        (("none.pkl",), 3, "none.pkl: no such file"),
        (("snap.pkl", "none.pkl"), 3, "none.pkl: no such file"),
        (
            ("empty",),
            2,
            "empty: no snapshot in this folder: no name ends in .pkl, .pickle or .json",
        ),
        (
            ("loose",),
            2,
            "loose: no rank in the file name a.pkl; name the files rank0.pkl, rank1.pkl, …",
        ),
        (
            ("snap.pkl", "loose"),
            2,
            "loose is a folder, which can't be combined with other files; memreplay diff",
        ),
        (("cut.pkl",), 4, "cut.pkl: "),
        (("snap.pkl", "cut.pkl"), 4, "cut.pkl: "),
        (("other.pkl",), 3, "other.pkl: "),
        (("large.pkl",), 3, "large.pkl: device 0 goes up to 18,014,398,509,481,984 bytes"),
        (("snap.pkl", "large.pkl"), 3, "snap.pkl, large.pkl: device 0 goes up to 18,014,398"),
        (("snap.pkl", "--device", "4"), 2, "no device 4"),
        (("snap.pkl", "--from", "9"), 2, "no events in --from 9"),
    ],
)
def test_impossible_options_are_rejected(
    arguments: tuple[str, ...], exit_code: int, words: str, runner: CliRunner, here: Path
) -> None:
    (here / "empty").mkdir()
    (here / "loose").mkdir()
    (here / "loose" / "a.pkl").write_bytes(snapshot(64))
    (here / "cut.pkl").write_bytes(snapshot(64)[:-100])
    (here / "other.pkl").write_bytes(b"nothing")
    (here / "large.pkl").write_bytes(snapshot(2**54))
    there = left(here)
    done = ask(runner, *arguments)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert words in done.stderr
    assert left(here) == there


def test_page_too_large_for_a_browser_is_not_written(
    runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "MOST_BYTES", 10)
    done = ask(runner, "snap.pkl")
    assert (done.exit_code, Path("snap.html").exists()) == (3, False)
    assert done.stderr.startswith("memreplay: error: snap.pkl: the page would have ")
    assert done.stderr.endswith("; make a page of a part with --from and --to\n")


def test_truncated_file_is_salvaged(runner: CliRunner) -> None:
    Path("cut.pkl").write_bytes(snapshot(64, 128, 256)[:-200])
    done = ask(runner, "cut.pkl", "--salvage")
    assert done.exit_code == 0
    assert done.stderr.startswith(f"memreplay: {CUT_OFF}\nmemreplay: wrote cut.html: ")
    (data,) = records(Path("cut.html").read_bytes())["snapshots"]
    assert data["options"] == ["--salvage"]
    assert data["notes"]


def test_range_and_configuration_apply(runner: CliRunner) -> None:
    Path("rules.toml").write_text(
        'category_defaults = false\n[[category]]\nname = "all mine"\nframes = "f1"\n'
    )
    part = ["--from", "1", "--to", "2", "--config", "rules.toml", "--project", "a"]
    assert ask(runner, "snap.pkl", *part).exit_code == 0
    (data,) = records(Path("snap.html").read_bytes())["snapshots"]
    (device,) = data["devices"]
    assert (device["first_event"], device["events"]) == (1, 1)
    assert data["options"] == part
    assert "all mine" in data["texts"]


@pytest.mark.parametrize("there", [True, False])
def test_page_is_opened(there: bool, runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def browse(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setenv("DISPLAY", ":0" if there else "")
    done = ask(runner, "snap.pkl", "--open")
    assert done.exit_code == 0
    assert done.stderr.startswith(said("snap.html", "2 allocations"))
    assert opened == ([Path("snap.html").absolute().as_uri()] if there else [])
    assert ("scp" in done.stderr) is not there


def test_hostile_names_are_escaped(runner: CliRunner, here: Path) -> None:
    name = "a\x1b[31m</title><script>x"
    Path(f"{name}.pkl".replace("/", "")).write_bytes(snapshot(64))
    done = ask(runner, f"{name}.pkl".replace("/", ""))
    assert done.exit_code == 0
    assert "\x1b" not in done.stderr
    (page,) = here.glob("*.html")
    assert page.read_bytes().count(b"<script") == 3


@pytest.mark.parametrize(
    "options, words",
    [
        (("--measure", "held"), "--measure is for perfetto"),
        (("--only", "pool=default"), "--only pool is for perfetto"),
        (("--tables", "usage"), "--tables is for parquet"),
        (("--at", "end"), "--at is for perfetto"),
        (("snap.pkl",), "html holds one snapshot; memreplay view compares two, or shows a folder"),
    ],
)
def test_page_options_of_other_formats_are_rejected(
    options: tuple[str, ...], words: str, runner: CliRunner, here: Path
) -> None:
    done = runner.invoke(app, ["export", "snap.pkl", "-o", "page.html", *options])
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
    assert left(here) == ["snap.pkl"]


@pytest.mark.parametrize(
    "output, words",
    [
        ("page.html.gz", ": browsers can't open a compressed page; end the name in .html"),
        ("pages/", "pages/ is a folder: html is one file"),
        ("missing/x.html", "there is no directory"),
    ],
)
def test_invalid_page_names_are_rejected(output: str, words: str, runner: CliRunner) -> None:
    done = runner.invoke(app, ["export", "snap.pkl", "--format", "html", "-o", output])
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
