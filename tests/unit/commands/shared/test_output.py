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
    """A stdout that is a terminal or is not."""

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
def test_colour(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], colour: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.wants_colour() is colour
    assert ("\x1b[" in output.render_document(DOCUMENT)) is colour


def test_the_options_say_where_output_goes(tmp_path: Path) -> None:
    read = tmp_path / "snap.pkl"
    read.write_bytes(b"read")
    there = tmp_path / "there"
    there.write_bytes(b"old")
    output.Output(output=str(tmp_path / "new")).check()
    output.Output(output=str(there), force=True).check([str(read)])
    with pytest.raises(UsageError, match="already exists; give --force to replace it"):
        output.Output(output=str(there)).check()
    with pytest.raises(UsageError, match="it is the snapshot that is read"):
        output.Output(output=str(read), force=True).check([str(read)])


@pytest.mark.parametrize("columns, widest", [("60", 60), ("160", 160), ("10", 40), ("x", 100)])
def test_width(monkeypatch: pytest.MonkeyPatch, columns: str, widest: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "__stdout__", None)
    lines = output.render_document(DOCUMENT).splitlines()
    assert widest - 12 <= max(map(len, lines)) <= widest


@pytest.mark.parametrize(
    "terminal, lines, repeated", [(True, 4, True), (True, 40, False), (False, 4, False)]
)
def test_the_last_words_are_for_a_terminal_that_is_too_short(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, lines: int, repeated: bool
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal))
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("NO_COLOR", "1")
    text = output.render_document(DOCUMENT, last=(Heading(("in short",)),))
    assert text.endswith("\n\nin short") is repeated
    assert ("in short" in text) is repeated


def test_a_terminal_that_does_not_say_its_height(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(terminal=True))
    monkeypatch.delenv("LINES", raising=False)
    text = output.render_document(DOCUMENT, last=(Heading(("in short",)),))
    assert "in short" not in text


def test_what_the_encoding_lacks_becomes_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
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
def test_an_error_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
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


def test_a_file_that_is_replaced_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with output.byte_output(str(link)) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_is_no_file_is_written_to_as_it_is(tmp_path: Path) -> None:
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


def test_a_pipe_by_its_number_is_written_to_as_it_is() -> None:
    # As `-o >(program)` of a shell says it, and /dev/stdout: a link to what no folder has.
    reading, writing = os.pipe()
    path = f"/dev/fd/{writing}"
    output.check_output(path, force=False)
    with output.byte_output(path) as file:
        file.write(b"through")
    os.close(writing)
    with open(reading, "rb") as got:
        assert got.read() == b"through"


def test_a_file_that_is_read_is_not_written_over(tmp_path: Path) -> None:
    for name in ("snap", "other"):
        (tmp_path / name).write_bytes(b"")
    snap, link = str(tmp_path / "snap"), tmp_path / "link"
    link.symlink_to(snap)
    os.link(snap, tmp_path / "hard")
    for path in (snap, str(link), str(tmp_path / "hard"), f"{tmp_path}/./snap"):
        with pytest.raises(UsageError, match="it is the snapshot that is read"):
            output.check_output(path, force=True, read=["-", snap])
    output.check_output(str(tmp_path / "other"), force=True, read=["-", snap, "s3://there/is"])
    output.check_output(str(tmp_path / "new"), force=False, read=[snap])
    output.check_output("/dev/null", force=False, read=["/dev/null"])
    # A table of the folder that is read is a part of it; a picture there is not.
    tables = tmp_path / "tables"
    tables.mkdir()
    for name in ("events.parquet", "events.png"):
        (tables / name).write_bytes(b"")
    with pytest.raises(UsageError, match="it is the snapshot that is read"):
        output.check_output(str(tables / "events.parquet"), force=True, read=[str(tables)])
    output.check_output(str(tables / "events.png"), force=True, read=[str(tables)])


def test_what_cannot_be_looked_at_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not taken for a file that is not there, nor for a device, which is written to as it is."""
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


def test_where_output_should_not_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_no_command_writes_over_the_snapshot_that_it_reads(
    asked: list[str], tmp_path: Path, runner: CliRunner
) -> None:
    snap = tmp_path / "snap.dat"
    snap.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10).build()))
    before = snap.read_bytes()
    done = runner.invoke(app, [asked[0], str(snap), *asked[1:], "-o", str(snap), "--force"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "it is the snapshot that is read" in done.stderr
    assert snap.read_bytes() == before


@pytest.mark.parametrize("fmt", ["arrow", "parquet"])
def test_tables_are_not_replaced_by_some_of_themselves(
    tmp_path: Path, runner: CliRunner, fmt: str
) -> None:
    pytest.importorskip("pyarrow")
    snap = tmp_path / "snap.pkl"
    snap.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10).build()))
    tables = str(tmp_path / "tables")
    assert runner.invoke(app, ["export", str(snap), "--format", fmt, "-o", tables]).exit_code == 0
    again = ["export", tables, "-o", tables, "--force"]
    done = runner.invoke(app, [*again, "--format", fmt, "--from", "1"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "it is the snapshot that is read" in done.stderr
    assert runner.invoke(app, [*again, "--format", "csv"]).exit_code == 0


def test_whether_anybody_reads_stdout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not output.stdout_is_closed()
        os.close(read)
        assert output.stdout_is_closed()
    assert not output.stdout_is_closed()  # no file any more
    with open(tmp_path / "out", "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not output.stdout_is_closed()
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not output.stdout_is_closed()
