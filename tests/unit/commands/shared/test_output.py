"""Tests of commands/shared/output.py."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared import output
from memreplay.errors import UsageError
from memreplay.render.document import Heading, Note, Place
from tests import build

DOCUMENT = (Heading((Place("f" * 30, "/x" * 50 + ".py", 1),)), Note("word " * 40))


class Stream(io.StringIO):
    """A stdout that claims to be a terminal or not."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    "terminal, environment, colour",
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": ""}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colour_depends_on_terminal_and_environment(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], colour: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.wants_colour() is colour
    assert ("\x1b[" in output.render_document(DOCUMENT)) is colour


def test_options_select_the_output(tmp_path: Path) -> None:
    read = tmp_path / "snap.pkl"
    read.write_bytes(b"read")
    there = tmp_path / "there"
    there.write_bytes(b"old")
    output.Output(output=str(tmp_path / "new")).check()
    output.Output(output=str(there), force=True).check([str(read)])
    with pytest.raises(UsageError, match="already exists; give --force to replace it"):
        output.Output(output=str(there)).check()
    with pytest.raises(UsageError, match=": it's the input snapshot"):
        output.Output(output=str(read), force=True).check([str(read)])


@pytest.mark.parametrize("columns, widest", [("60", 60), ("160", 160), ("10", 40), ("x", 100)])
def test_width_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, columns: str, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "__stdout__", None)
    lines = output.render_document(DOCUMENT).splitlines()
    assert widest - 12 <= max(map(len, lines)) <= widest


@pytest.mark.parametrize(
    "terminal, lines, repeated", [(True, 4, True), (True, 40, False), (False, 4, False)]
)
def test_closing_lines_appear_only_on_a_short_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, lines: int, repeated: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal))
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("NO_COLOR", "1")
    text = output.render_document(DOCUMENT, last=(Heading(("in short",)),))
    assert text.endswith("\n\nin short") is repeated
    assert ("in short" in text) is repeated


def test_closing_lines_are_omitted_if_the_height_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=True))
    monkeypatch.delenv("LINES", raising=False)
    text = output.render_document(DOCUMENT, last=(Heading(("in short",)),))
    assert "in short" not in text


def test_unencodable_characters_become_question_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.write("…/x.py \udc80")
    assert raw.getvalue() == b"?/x.py ?\n"


def test_colours_survive_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(terminal=False)
    monkeypatch.setattr(sys, "stdout", stream)
    output.write("\x1b[1mx\x1b[0m")
    assert stream.getvalue() == "\x1b[1mx\x1b[0m\n"


# ---- files ---------------------------------------------------------------------------------------


def test_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with output.byte_output(str(path)) as file:
        file.write(b"x" * 100)
        assert not path.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert path.read_bytes() == b"x" * 100
    assert list(tmp_path.iterdir()) == [path]
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert path.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_error_keeps_the_old_file(tmp_path: Path, error: BaseException) -> None:
    def fail(path: Path) -> None:
        with output.byte_output(str(path)) as file:
            file.write(b"half")
            raise error

    old = tmp_path / "old"
    old.write_bytes(b"old")
    for path in (old, tmp_path / "new"):
        with pytest.raises(type(error)):
            fail(path)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("old", b"old")]


def test_replaced_file_keeps_its_mode_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with output.byte_output(str(link)) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_special_files_are_written_in_place(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    with output.byte_output(str(fifo)) as file:
        file.write(b"through")
    reader.join(10)
    assert got == [b"through"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_pipe_by_number_is_written_in_place() -> None:
    # For example, `-o >(program)` in a shell, or /dev/stdout: a link to a pipe that isn't in a
    # folder.
    reading, writing = os.pipe()
    path = f"/dev/fd/{writing}"
    output.check_output(path, force=False)
    with output.byte_output(path) as file:
        file.write(b"through")
    os.close(writing)
    with open(reading, "rb") as got:
        assert got.read() == b"through"


def test_input_file_is_not_overwritten(tmp_path: Path) -> None:
    for name in ("snap", "other"):
        (tmp_path / name).write_bytes(b"")
    snap, link = str(tmp_path / "snap"), tmp_path / "link"
    link.symlink_to(snap)
    os.link(snap, tmp_path / "hard")
    for path in (snap, str(link), str(tmp_path / "hard"), f"{tmp_path}/./snap"):
        with pytest.raises(UsageError, match=": it's the input snapshot"):
            output.check_output(path, force=True, read=["-", snap])
    output.check_output(str(tmp_path / "other"), force=True, read=["-", snap, "s3://there/is"])
    output.check_output(str(tmp_path / "new"), force=False, read=[snap])
    output.check_output("/dev/null", force=False, read=["/dev/null"])
    # A table in the input folder is part of the input, but a picture isn't.
    tables = tmp_path / "tables"
    tables.mkdir()
    for name in ("events.parquet", "events.png"):
        (tables / name).write_bytes(b"")
    with pytest.raises(UsageError, match=": it's the input snapshot"):
        output.check_output(str(tables / "events.parquet"), force=True, read=[str(tables)])
    output.check_output(str(tables / "events.png"), force=True, read=[str(tables)])


def test_unreadable_targets_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If they counted as missing, they would be replaced; if they counted as devices, they would be
    written in place.
    """
    there = tmp_path / "there"
    there.write_bytes(b"old")
    real = os.stat

    def stat(path: str, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == str(there):
            raise OSError(5, "Input/output error")
        return real(path, follow_symlinks=follow_symlinks)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        with pytest.raises(UsageError, match=r"cannot write .*there: input/output error"):
            output.check_output(str(there), force=False)
        with (
            pytest.raises(OSError, match="Input/output"),
            output.byte_output(str(there)) as file,
        ):
            file.write(b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("there", b"old")]


def test_invalid_output_targets_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.write_bytes(b"")
    with pytest.raises(UsageError, match="there already exists; give --force"):
        output.check_output(str(there), force=False)
    output.check_output(str(there), force=True)
    output.check_output(str(tmp_path / "new"), force=False)
    output.check_output("/dev/null", force=False)
    with pytest.raises(UsageError, match=r"there is no directory .*nowhere"):
        output.check_output(str(tmp_path / "nowhere" / "new"), force=True)
    for path in (None, "-"):
        monkeypatch.setattr(sys, "stdout", Stream(terminal=True))
        with pytest.raises(UsageError, match="stdout is a terminal"):
            output.check_output(path, force=False)
        output.check_output(path, force=True)
        monkeypatch.setattr(sys, "stdout", Stream(terminal=False))
        output.check_output(path, force=False)


@pytest.mark.parametrize(
    "asked",
    [
        ["export", "--format", "pickle", "--to", "1"],
        ["export", "--format", "txt"],
        ["timeline", "--format", "csv"],
        ["fragmentation", "--format", "svg"],
        ["export", "--format", "collapsed"],
        ["export", "--format", "csv"],
    ],
)
def test_no_command_overwrites_its_snapshot(
    asked: list[str], tmp_path: Path, runner: CliRunner
) -> None:
    snap = tmp_path / "snap.dat"
    snap.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10).build()))
    before = snap.read_bytes()
    done = runner.invoke(app, [asked[0], str(snap), *asked[1:], "-o", str(snap), "--force"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert ": it's the input snapshot" in done.stderr
    assert snap.read_bytes() == before


@pytest.mark.parametrize("fmt", ["arrow", "parquet"])
def test_tables_are_not_replaced_by_a_subset(tmp_path: Path, runner: CliRunner, fmt: str) -> None:
    pytest.importorskip("pyarrow")
    snap = tmp_path / "snap.pkl"
    snap.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10).build()))
    tables = str(tmp_path / "tables")
    assert runner.invoke(app, ["export", str(snap), "--format", fmt, "-o", tables]).exit_code == 0
    again = ["export", tables, "-o", tables, "--force"]
    done = runner.invoke(app, [*again, "--format", fmt, "--from", "1"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert ": it's the input snapshot" in done.stderr
    assert runner.invoke(app, [*again, "--format", "csv"]).exit_code == 0


def test_missing_reader_of_stdout_is_detected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not output.stdout_is_closed()
        os.close(read)
        assert output.stdout_is_closed()
    assert not output.stdout_is_closed()  # no longer a file
    with open(tmp_path / "out", "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not output.stdout_is_closed()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not output.stdout_is_closed()
