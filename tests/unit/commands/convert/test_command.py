"""Tests of commands/convert/command.py."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "snap.pkl"
    builder = SnapshotBuilder().alloc(0x1000, 64, frames=[("f", "f.py", 1)]).top("unknown", [1])
    made.write_bytes(build.dump(builder.build()))
    return made


@pytest.mark.parametrize(
    "ending, unpack", [(".gz", gzip.decompress), (".xz", lzma.decompress), (".bz2", bz2.decompress)]
)
def test_compressed(
    runner: CliRunner, path: Path, tmp_path: Path, ending: str, unpack: object
) -> None:
    out = tmp_path / f"out.pkl{ending}"
    result = runner.invoke(app, ["convert", str(path), "-o", str(out)])
    assert (result.exit_code, result.output) == (0, "")
    assert callable(unpack)
    assert unpack(out.read_bytes()) == path.read_bytes()
    plain = tmp_path / "plain.pkl"
    assert runner.invoke(app, ["convert", str(out), "-o", str(plain)]).exit_code == 0
    assert plain.read_bytes() == path.read_bytes()


def test_zstandard(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    out = tmp_path / "out.pkl.zst"
    assert runner.invoke(app, ["convert", str(path), "-o", str(out)]).exit_code == 0
    back = runner.invoke(app, ["convert", str(out), "-o", "-"])
    assert back.stdout_bytes == path.read_bytes()


def test_forms(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    made = pickle.loads(path.read_bytes())
    text = tmp_path / "out.json"
    assert runner.invoke(app, ["convert", str(path), "-o", str(text)]).exit_code == 0
    assert json.loads(text.read_text()) == made
    out = tmp_path / "out.pickle"
    arguments = ["convert", str(text), "-o", str(out), "--protocol", "5"]
    assert runner.invoke(app, arguments).exit_code == 0
    assert out.read_bytes()[:2] == b"\x80\x05"
    assert pickle.loads(out.read_bytes()) == made
    piped = runner.invoke(
        app, ["convert", "-", "-o", "-", "--format", "json"], input=path.read_bytes()
    )
    assert json.loads(piped.stdout_bytes) == made


def test_nothing_is_written_over(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pkl"
    out.write_bytes(b"mine")
    result = runner.invoke(app, ["convert", str(path), "-o", str(out)])
    assert (result.exit_code, out.read_bytes()) == (2, b"mine")
    assert runner.invoke(app, ["convert", str(path), "-o", str(out), "--force"]).exit_code == 0
    assert out.read_bytes() == path.read_bytes()
    # Onto itself, too.
    itself = ["convert", str(out), "-o", str(out), "--force", "--protocol", "2"]
    assert runner.invoke(app, itself).exit_code == 0
    assert pickle.loads(out.read_bytes()) == pickle.loads(path.read_bytes())


@pytest.mark.parametrize("ending", [".pkl", ".json", ".pkl.gz"])
def test_what_is_no_snapshot(runner: CliRunner, path: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    whole = path.read_bytes()
    for data, code in ((whole[:-9], 4), (b"no snapshot", 3), (pickle.dumps([print]), 3)):
        path.write_bytes(data)
        result = runner.invoke(app, ["convert", str(path), "-o", str(out)])
        assert result.exit_code == code
        assert len(result.stderr.splitlines()) == 1
        assert sorted(file.name for file in tmp_path.iterdir()) == ["snap.pkl"]


@pytest.mark.parametrize(
    "arguments",
    [["-o", "x.zip"], ["-o", "x.json", "--protocol", "2"], ["-o", "x.pkl", "--protocol", "1"], []],
)
def test_wrong_usage(runner: CliRunner, path: Path, arguments: list[str]) -> None:
    assert runner.invoke(app, ["convert", str(path), *arguments]).exit_code == 2


def test_a_full_disk_is_no_fault_of_the_file(runner: CliRunner, path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    result = runner.invoke(app, ["convert", str(path), "-o", "/dev/full", "--force"])
    assert result.exit_code == 2
    assert result.stderr == "memreplay: error: cannot write the output: no space left on device\n"


def test_a_folder_of_tables_is_for_slice(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tables = str(tmp_path / "tables")
    assert runner.invoke(app, ["export", str(path), "-o", f"{tables}/"]).exit_code == 0
    result = runner.invoke(app, ["convert", tables, "-o", str(tmp_path / "out.pkl")])
    assert result.exit_code == 2
    assert f"{tables} is a folder of tables: memreplay slice makes" in result.stderr
    assert not (tmp_path / "out.pkl").exists()
