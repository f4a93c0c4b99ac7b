"""Tests of commands/export/writing.py: two tables at a time, one where there is one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow")

from memreplay.commands.app import app
from memreplay.commands.export import writing
from tests import build


@pytest.fixture
def snap(tmp_path: Path) -> str:
    path = tmp_path / "snap.pkl"
    frames = [("f", "x.py", 1)]
    path.write_bytes(build.dump(build.SnapshotBuilder().alloc(0x1000, 10, frames=frames).build()))
    return str(path)


def tables(runner: CliRunner, snap: str, out: Path) -> dict[str, bytes]:
    done = runner.invoke(app, ["export", snap, "--format", "csv", "-o", f"{out}/"])
    assert done.exit_code == 0, done.stderr
    return {one.name: one.read_bytes() for one in out.iterdir()}


def test_without_another_thread_all_is_written_here(
    runner: CliRunner, snap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tables(runner, snap, tmp_path / "both")
    assert len(whole) == 8

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        assert tables(runner, snap, tmp_path / "refused") == whole
    monkeypatch.setattr(writing, "several_cpus", lambda: False)
    assert tables(runner, snap, tmp_path / "one") == whole


@pytest.mark.parametrize("table", ["events", "usage", "annotations"])
def test_an_error_of_any_table_is_that_of_all(
    runner: CliRunner, snap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    real = writing.writer_of

    def writer_of(fmt: str) -> Any:
        def write(made: Any, out: Any) -> None:
            if table in out.name:
                raise OSError(28, "No space left on device")
            real(fmt)(made, out)

        return write

    monkeypatch.setattr(writing, "writer_of", writer_of)
    done = runner.invoke(app, ["export", snap, "--format", "csv", "-o", f"{tmp_path}/out/"])
    assert (done.exit_code, done.stderr) == (
        2,
        "memreplay: error: cannot write the output: no space left on device\n",
    )
    assert os.listdir(tmp_path) == ["snap.pkl"]


def test_an_error_of_the_measures_is_that_of_all(
    runner: CliRunner, snap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(writing, "make_measures", fail)
    done = runner.invoke(app, ["export", snap, "--format", "csv", "-o", f"{tmp_path}/out/"])
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1)
    assert os.listdir(tmp_path) == ["snap.pkl"]


@pytest.mark.parametrize("fmt", ["csv", "ndjson", "json"])
def test_what_registers_functions_is_loaded_before_threads_write(fmt: str) -> None:
    """Else one that writes may not find its own meanwhile."""
    ask = (
        "import sys; from memreplay.commands.export import writing; "
        f"writing.writer_of({fmt!r}); print('pyarrow.compute' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_what_is_loaded_beside_fails_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not in a thread, which would print a traceback."""

    def out_of_memory(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(writing, "import_module", out_of_memory)
    writing._load("csv")
    with pytest.raises(MemoryError):
        writing.writer_of("csv")
