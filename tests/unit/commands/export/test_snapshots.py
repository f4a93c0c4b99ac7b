"""Tests of commands/export/snapshots.py: export whole snapshots in another format, and ranges."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from memreplay.render.units import size
from tests import build
from tests.build import SnapshotBuilder
from tests.kineto import Kineto


@pytest.fixture
def path(tmp_path: Path) -> Path:
    builder = SnapshotBuilder()
    for i in range(8):
        builder.alloc(0x1000 * (i + 1), 100 << i, frames=[("f", "f.py", i)])
    builder.free(0x1000, 100, frames=[("g", "g.py", 1)])
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder.finish_segments().build()))
    return made


def test_range_is_a_smaller_snapshot(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.pkl"
    result = runner.invoke(app, ["export", str(path), "--from", "4", "-o", str(out)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"memreplay: wrote {out}: a snapshot as pickle, {size(out.stat().st_size)}\n"
        "memreplay: device 0: events 4 to 9 (6); 1 added before them for allocations already live\n"
    )
    assert mr.open(out).replay().peak.bytes == mr.open(path).replay().peak.bytes
    events = pickle.loads(out.read_bytes())["device_traces"][0]
    assert [event.get("memreplay_carried") for event in events] == [True, *[None] * 6]
    assert (events[0]["size"], events[0]["frames"][0]["name"]) == (100, "f")
    # Existing files stay.
    before = out.read_bytes()
    again = runner.invoke(app, ["export", str(path), "-o", str(out)])
    assert (again.exit_code, out.read_bytes()) == (2, before)
    assert again.stderr == f"memreplay: error: {out} already exists; give --force to replace it\n"
    assert runner.invoke(app, ["export", str(path), "-o", str(out), "--force"]).exit_code == 0
    assert out.read_bytes() != before


def test_output_is_deterministic(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    for ending in (".pkl", ".json", ".pkl.gz", ".json.xz", ".pkl.bz2"):
        first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
        for out in (first, second):
            arguments = ["export", str(path), "--from", "3", "-o", str(out)]
            assert runner.invoke(app, arguments).exit_code == 0
        assert first.read_bytes() == second.read_bytes()
        assert mr.open(first).replay().events == 7


def test_suffix_or_option_selects_json(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.json.gz"
    assert runner.invoke(app, ["export", str(path), "-o", str(out)]).exit_code == 0
    made = json.loads(gzip.decompress(out.read_bytes()))
    result = runner.invoke(app, ["export", str(path), "--json"])
    assert json.loads(result.stdout_bytes) == made


def test_options_make_the_snapshot_smaller(runner: CliRunner, path: Path) -> None:
    result = runner.invoke(
        app,
        [
            "export",
            str(path),
            "--format",
            "pickle",
            "--only",
            "min-bytes=1K",
            "--strip-frames",
            "all",
        ],
    )
    assert result.stderr == (
        "memreplay: device 0: 4 of events 0 to 9 (10);"
        " left out: 4 small allocations of 1.5 KiB in all\n"
    )
    made = pickle.loads(result.stdout_bytes)
    assert [event["size"] for event in made["device_traces"][0]] == [1600, 3200, 6400, 12800]
    assert all(event["frames"] == [] for event in made["device_traces"][0])
    states = [block["state"] for segment in made["segments"] for block in segment["blocks"]]
    assert states.count("inactive") == 3


@pytest.mark.parametrize("arguments", [["-o", "x.zip"], ["--strip-frames", "some"]])
def test_usage_errors_are_reported(runner: CliRunner, path: Path, arguments: list[str]) -> None:
    result = runner.invoke(app, ["export", str(path), *arguments])
    assert result.exit_code == 2
    assert not Path("x.zip").exists()


def test_unreadable_file_writes_nothing(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])
    out = tmp_path / "small.pkl"
    result = runner.invoke(app, ["export", str(path), "-o", str(out)])
    assert result.exit_code == 4
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()
    salvaged = runner.invoke(app, ["export", str(path), "--salvage", "-o", str(out)])
    assert salvaged.exit_code == 0
    assert mr.open(out).truncation is None


def test_range_can_use_another_pickle_protocol(
    runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    out, four = tmp_path / "out.pkl", tmp_path / "four.pkl"
    asked = ["export", str(path), "--from", "3", "-o"]
    assert runner.invoke(app, [*asked, str(out), "--protocol", "2"]).exit_code == 0
    assert runner.invoke(app, [*asked, str(four)]).exit_code == 0
    assert (out.read_bytes()[:2], four.read_bytes()[:2]) == (b"\x80\x02", b"\x80\x04")
    assert pickle.loads(out.read_bytes()) == pickle.loads(four.read_bytes())


def test_tables_become_a_snapshot(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tables, out = str(tmp_path / "tables"), tmp_path / "out.pkl"
    assert runner.invoke(app, ["export", str(path), "-o", f"{tables}/"]).exit_code == 0
    assert runner.invoke(app, ["export", tables, "-o", str(out)]).exit_code == 0
    assert mr.open(out).replay().peak.bytes == mr.open(path).replay().peak.bytes


def test_profiler_trace_becomes_a_snapshot(runner: CliRunner, tmp_path: Path) -> None:
    trace = Kineto()
    trace.span(0, 50, "train.py(3): main", "python_function")
    trace.memory(10, 1 << 30, 1 << 20, 1 << 20, 16 << 20)
    path, out = tmp_path / "trace.json", tmp_path / "out.pkl"
    path.write_bytes(trace.json())
    result = runner.invoke(app, ["export", str(path), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert mr.open(out).replay().peak.bytes == mr.open(path).replay().peak.bytes


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["-o", "x.csv", "--strip-frames", "all"], "--strip-frames is for pickle, json, not for"),
        (["-o", "x.json", "--tables", "usage", "--strip-frames", "all"], "not for tables"),
        (["-o", "x.pkl", "--include", "f"], "a filter (--include, --only …) is for perfetto"),
        (["-o", "x.json", "--protocol", "2"], "--protocol is for pickle, not for json"),
        (["-o", "x.pkl", "--tables", "usage"], "--tables is for parquet, arrow, csv, ndjson, json"),
        (["--format", "pickle", "-o", "x/"], "x/ is a folder: pickle is one file"),
        (["snap.pkl", "-o", "x.txt"], "txt holds one snapshot; give one FILE"),
    ],
)
def test_incompatible_options_are_rejected(
    runner: CliRunner, path: Path, arguments: list[str], words: str
) -> None:
    result = runner.invoke(app, ["export", str(path), *arguments])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert words in result.stderr


# --- whole snapshots ------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    made = tmp_path / "snap.pkl"
    builder = SnapshotBuilder().alloc(0x1000, 64, frames=[("f", "f.py", 1)]).top("unknown", [1])
    made.write_bytes(build.dump(builder.build()))
    return made


@pytest.mark.parametrize(
    "ending, unpack", [(".gz", gzip.decompress), (".xz", lzma.decompress), (".bz2", bz2.decompress)]
)
def test_suffix_compresses_the_snapshot(
    runner: CliRunner, whole: Path, tmp_path: Path, ending: str, unpack: object
) -> None:
    out = tmp_path / f"out.pkl{ending}"
    result = runner.invoke(app, ["export", str(whole), "-o", str(out)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"memreplay: wrote {out}: the whole snapshot as pickle, ")
    assert callable(unpack)
    assert unpack(out.read_bytes()) == whole.read_bytes()
    plain = tmp_path / "plain.pkl"
    assert runner.invoke(app, ["export", str(out), "-o", str(plain)]).exit_code == 0
    assert plain.read_bytes() == whole.read_bytes()


def test_zstandard_reads_back(runner: CliRunner, whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    out = tmp_path / "out.pkl.zst"
    assert runner.invoke(app, ["export", str(whole), "-o", str(out)]).exit_code == 0
    back = runner.invoke(app, ["export", str(out), "--format", "pickle"])
    assert back.stdout_bytes == whole.read_bytes()


def test_whole_snapshot_can_change_its_format(
    runner: CliRunner, whole: Path, tmp_path: Path
) -> None:
    made = pickle.loads(whole.read_bytes())
    text = tmp_path / "out.json"
    assert runner.invoke(app, ["export", str(whole), "-o", str(text)]).exit_code == 0
    assert json.loads(text.read_text()) == made
    out = tmp_path / "out.pickle"
    arguments = ["export", str(text), "-o", str(out), "--protocol", "5"]
    assert runner.invoke(app, arguments).exit_code == 0
    assert out.read_bytes()[:2] == b"\x80\x05"
    assert pickle.loads(out.read_bytes()) == made
    piped = runner.invoke(
        app, ["export", "-", "-o", "-", "--format", "json"], input=whole.read_bytes()
    )
    assert json.loads(piped.stdout_bytes) == made


def test_files_are_not_overwritten(runner: CliRunner, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pkl"
    out.write_bytes(b"mine")
    result = runner.invoke(app, ["export", str(whole), "-o", str(out)])
    assert (result.exit_code, out.read_bytes()) == (2, b"mine")
    assert runner.invoke(app, ["export", str(whole), "-o", str(out), "--force"]).exit_code == 0
    assert out.read_bytes() == whole.read_bytes()
    # With --force, a file can replace itself.
    itself = ["export", str(out), "-o", str(out), "--force", "--protocol", "2"]
    assert runner.invoke(app, itself).exit_code == 0
    assert pickle.loads(out.read_bytes()) == pickle.loads(whole.read_bytes())


@pytest.mark.parametrize("ending", [".pkl", ".json", ".pkl.gz"])
def test_broken_snapshot_writes_nothing(
    runner: CliRunner, whole: Path, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"out{ending}"
    data = whole.read_bytes()
    for broken, code in ((data[:-9], 4), (b"no snapshot", 3), (pickle.dumps([print]), 3)):
        whole.write_bytes(broken)
        result = runner.invoke(app, ["export", str(whole), "-o", str(out)])
        assert result.exit_code == code
        assert len(result.stderr.splitlines()) == 1
        assert sorted(file.name for file in tmp_path.iterdir()) == ["snap.pkl"]


@pytest.mark.parametrize(
    "arguments",
    [["-o", "x.zip"], ["-o", "x.json", "--protocol", "2"], ["-o", "x.pkl", "--protocol", "1"], []],
)
def test_unsupported_output_forms_are_rejected(
    runner: CliRunner, whole: Path, arguments: list[str]
) -> None:
    assert runner.invoke(app, ["export", str(whole), *arguments]).exit_code == 2


def test_full_disk_is_not_blamed_on_the_file(runner: CliRunner, whole: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    result = runner.invoke(app, ["export", str(whole), "-o", "/dev/full", "--force"])
    assert result.exit_code == 2
    assert result.stderr == "memreplay: error: can't write the output: no space left on device\n"
