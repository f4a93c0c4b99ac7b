"""Tests of commands/export/writing.py: write two tables at a time, or one if there is no second
thread.
"""

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


def test_tables_are_written_in_this_thread_if_there_is_no_other(
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
def test_error_in_any_table_is_raised(
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
        "memreplay: error: can't write the output: no space left on device\n",
    )
    assert os.listdir(tmp_path) == ["snap.pkl"]


def test_error_in_the_measures_is_raised(
    runner: CliRunner, snap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(writing, "make_measures", fail)
    done = runner.invoke(app, ["export", snap, "--format", "csv", "-o", f"{tmp_path}/out/"])
    assert (done.exit_code, done.stderr.count("\n")) == (3, 1)
    assert os.listdir(tmp_path) == ["snap.pkl"]


@pytest.mark.parametrize("fmt", ["csv", "ndjson", "json"])
def test_function_registries_are_loaded_before_threads_write(fmt: str) -> None:
    """Otherwise, a writer might look up its function before it's registered."""
    ask = (
        "import sys; from memreplay.commands.export import writing; "
        f"writing.writer_of({fmt!r}); print('pyarrow.compute' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_failed_background_import_is_raised_at_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a thread would print a traceback."""

    def out_of_memory(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(writing, "import_module", out_of_memory)
    writing._load("csv")
    with pytest.raises(MemoryError):
        writing.writer_of("csv")
