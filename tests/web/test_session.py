"""Command lines run inside one process, as the browser's worker runs them, do what they do on a
terminal.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "transformer_step.pkl.gz"


@pytest.fixture(scope="module")
def session() -> ModuleType:
    """Load web/session.py, which isn't part of the package."""
    spec = importlib.util.spec_from_file_location("session", ROOT / "web" / "session.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with a link to an example, as the worker makes it."""
    (tmp_path / "snap.pkl.gz").symlink_to(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize("words", ["report", "peak --by line", "peak --json", "oom", "nonsense"])
def test_line_prints_what_a_terminal_prints(session: ModuleType, folder: Path, words: str) -> None:
    name, _, options = words.partition(" ")
    line = f"memreplay {name} snap.pkl.gz {options}"
    native = subprocess.run(
        [sys.executable, "-m", *line.split()],
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": "90"},
    )
    ran = session.run(line, 90)
    assert ran.code == native.returncode
    assert ran.text.encode() == native.stdout
    assert ran.said.encode() == native.stderr
    assert ran.written == {}


def test_written_files_are_handed_over_and_removed(session: ModuleType, folder: Path) -> None:
    os.mkdir("run")
    shutil.copy(EXAMPLE, "run/rank0.pkl.gz")
    before = sorted(os.listdir())
    ran = session.run("memreplay export snap.pkl.gz --from 1 --to 3 -o small.json", 80)
    assert (ran.code, list(ran.written)) == (0, ["small.json"])
    assert ran.written["small.json"].startswith(b"{")
    assert sorted(os.listdir()) == before
    # The same line works again, because the file is gone.
    assert session.run("memreplay export snap.pkl.gz --from 1 --to 3 -o small.json", 80) == ran


def test_binary_output_is_a_file(session: ModuleType, folder: Path) -> None:
    words = "export snap.pkl.gz --from 1 --to 3 --format pickle"
    ran = session.run(f"memreplay {words}", 80)
    assert (ran.code, ran.text) == (0, "")
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", *words.split()], capture_output=True, check=True
    )
    assert ran.written == {"output": done.stdout}


def test_file_is_read_once_until_it_is_closed(
    session: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memreplay.commands.shared.source.keep", session.kept.lend)
    Path("copy.pkl.gz").write_bytes(EXAMPLE.read_bytes())
    first = session.run("memreplay peak copy.pkl.gz", 80)
    Path("copy.pkl.gz").write_bytes(b"")
    assert session.run("memreplay peak copy.pkl.gz", 80) == first
    # A part of the file is another snapshot.
    assert session.run("memreplay peak copy.pkl.gz --from 1000", 80).code == 3
    session.kept.forget("copy.pkl.gz")
    assert session.run("memreplay peak copy.pkl.gz", 80).code == 3


def test_file_that_replaces_another_is_read_again(
    session: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that begins with - is written with ./, so it isn't the name under which it was
    opened.
    """
    monkeypatch.setattr("memreplay.commands.shared.source.keep", session.kept.lend)
    Path("-x.pkl").symlink_to(EXAMPLE)
    first = session.run("memreplay peak ./-x.pkl", 80)
    session.kept.forget("-x.pkl")
    Path("-x.pkl").unlink()
    Path("-x.pkl").symlink_to(EXAMPLE.with_name("transformer_deeper.pkl.gz"))
    second = session.run("memreplay peak ./-x.pkl", 80)
    assert (first.code, second.code) == (0, 0)
    assert first.text != second.text


def test_only_the_last_files_are_kept(session: ModuleType) -> None:
    kept, read = session.Kept(), []

    def lend(file: str) -> None:
        kept.lend(file, None, lambda: read.append(file))

    for file in "abacab":
        lend(file)
    assert "".join(read) == "abcb"


def test_other_files_make_room(session: ModuleType) -> None:
    kept, other, read = session.Kept(), object(), []

    def too_large() -> object:
        read.append(1)
        if len(read) == 1:
            raise MemoryError
        return other

    first = kept.lend("a", None, object)
    assert kept.lend("b", None, too_large) is other
    assert kept.lend("b", None, object) is other
    assert kept.lend("a", None, object) is not first
    kept.forget("a")
    kept.forget("b")

    def always() -> object:
        raise MemoryError

    with pytest.raises(MemoryError):
        kept.lend("b", None, always)


def test_names_are_quoted_as_in_a_shell(session: ModuleType, folder: Path) -> None:
    os.symlink(EXAMPLE, "it's a file.pkl.gz")
    ran = session.run("""memreplay peak 'it'\\''s a file.pkl.gz'""", 80)
    assert ran.code == 0
    assert ran.text.startswith("it's a file.pkl.gz\n")


@pytest.mark.parametrize(
    "line, words",
    [
        ("memreplay peak 'snap.pkl.gz", "no closing quotation"),
        ("memreplay record train.py", "record doesn't work in a browser; install memreplay"),
        ("memreplay peak gone.pkl", "gone.pkl: no such file"),
    ],
)
def test_error_is_one_line(session: ModuleType, folder: Path, line: str, words: str) -> None:
    ran = session.run(line, 80)
    assert ran.code in (2, 3)
    assert ran.text == ""
    assert ran.said.startswith(f"memreplay: error: {words}")
    assert ran.said.count("\n") == 1


def test_unexpected_error_asks_for_a_report(
    session: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by\nzero")

    monkeypatch.setattr("memreplay.commands.app.app", broken)
    ran = session.run("memreplay peak snap.pkl.gz", 80)
    assert ran.code == session.UNEXPECTED
    assert ran.said.startswith(
        "memreplay: error: this is a bug (ZeroDivisionError: division by zero)"
    )
    assert ran.said.count("\n") == 1


def in_worker(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line after the worker's start, which changes memreplay for good."""
    script = """
import sys, session
session.load()
ran = session.run(sys.argv[1], 80)
sys.stdout.write(ran.text)
sys.stderr.write(ran.said)
"""
    return subprocess.run(
        [sys.executable, "-c", script, line],
        capture_output=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "web")},
        text=True,
    )


def test_absent_commands_are_not_offered(session: ModuleType, folder: Path) -> None:
    offered = re.findall(r"^  (\w+) ", in_worker("memreplay --help", folder).stdout, re.MULTILINE)
    assert "peak" in offered
    assert not set(offered) & set(session.ABSENT)


@pytest.mark.parametrize(
    "package, line",
    [
        ("numpy", "memreplay export snap.pkl.gz -o out.csv"),
        ("duckdb", "memreplay sql snap.pkl.gz"),
    ],
)
def test_advice_is_not_to_install_a_package(folder: Path, package: str, line: str) -> None:
    (folder / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})")
    said = in_worker(line, folder).stderr
    assert said.endswith(": this page doesn't have it; install memreplay: pip install memreplay\n")
    assert said.count("\n") == 1


def test_file_that_changed_is_explained(
    session: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("memreplay.commands.shared.source.keep", read)
    ran = session.run("memreplay peak snap.pkl.gz", 80)
    words = "the file changed, or was removed, after you opened it; close it, and open it again"
    assert ran.said == f"memreplay: error: snap.pkl.gz: {words}\n"


def test_streams_are_restored(session: ModuleType, folder: Path) -> None:
    before = sys.stdout, sys.stderr
    session.run("memreplay peak snap.pkl.gz", 80)
    assert (sys.stdout, sys.stderr) == before
