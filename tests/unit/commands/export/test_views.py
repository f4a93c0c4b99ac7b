"""`memreplay export` for viewers: file names, incompatible options, complete files, deterministic
output.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from memreplay.commands.export.views import is_compressed
from memreplay.export.naming import VIEWS
from memreplay.render.units import size
from tests import build, views


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(views.everything()))
    return made


def run(runner: CliRunner, *args: object) -> Result:
    return runner.invoke(app, ["export", *map(str, args)])


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


BEGINS = {
    "x.pftrace": b"\x0a",
    "x.perfetto-trace": b"\x0a",
    "x.perfetto": b"\x0a",
    "x.trace.json": b'{"displayTimeUnit"',
    "x.chrome.json": b'{"displayTimeUnit"',
    "chrome.json": b'{"displayTimeUnit"',
    "x.perfetto.json": b'{"displayTimeUnit"',
    "x.chrome-trace.json.gz": b'{"displayTimeUnit"',
    "speedscope.json": b'{"$schema"',
    "x.folded.txt": b"device 0;train",
    "x.speedscope.json": b'{"$schema"',
    "x.folded": b"device 0;train",
    "x.collapsed": b"device 0;train",
    "x.pb.gz": b"\x0a\x04\x08",
    "x.pb": b"\x0a\x04\x08",
}


@pytest.mark.parametrize("name", BEGINS)
def test_suffix_selects_the_format(runner: CliRunner, path: Path, name: str) -> None:
    out = path.parent / name
    result = run(runner, path, "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"memreplay: wrote {out}: ")
    assert f", {size(out.stat().st_size)}; " in result.stderr
    assert content(out).startswith(BEGINS[name])
    assert (out.read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    again = path.parent / f"again.{name}"
    assert run(runner, path, "-o", again).exit_code == 0
    assert again.read_bytes() == out.read_bytes()
    refused = run(runner, path, "-o", out)
    assert refused.exit_code == 2
    assert "give --force to replace it" in refused.stderr


@pytest.mark.parametrize("name", ["x.trace.json.gz", "x.pftrace.gz", "x.folded.gz"])
def test_gz_suffix_compresses_the_output(runner: CliRunner, path: Path, name: str) -> None:
    plain = path.parent / name.removesuffix(".gz")
    assert run(runner, path, "-o", plain).exit_code == 0
    assert run(runner, path, "-o", path.parent / name).exit_code == 0
    packed = (path.parent / name).read_bytes()
    assert gzip.decompress(packed) == plain.read_bytes()
    assert packed[3:8] == bytes(5)  # contains neither a name nor a time


def test_pprof_is_compressed() -> None:
    assert is_compressed("pprof", None)
    assert is_compressed("pprof", "x")
    assert not is_compressed("pprof", "x.pb")
    assert not is_compressed("pprof", "X.PB")
    assert is_compressed("chrome", "X.TRACE.JSON.GZ")
    assert not is_compressed("chrome", None)


@pytest.mark.parametrize("name", ["x.raw.json.gz", "x.raw.json", "x.json", "x.timeline.json.gz"])
def test_memory_timeline_has_bytes_by_category(runner: CliRunner, path: Path, name: str) -> None:
    out = path.parent / name
    result = run(runner, path, "-o", out, "--format", "memory-timeline", "--device", 0)
    assert (result.exit_code, result.stdout) == (0, "")
    found = json.loads(content(out))
    raw = "raw " if "raw" in name else ""
    assert result.stderr == (
        f"memreplay: wrote {out}: {raw}bytes by guessed category over time as memory-timeline,"
        f" 8 changes, {size(out.stat().st_size)}\n"
    )
    if "raw" in name:
        assert found[0] == [-1, 1, 700, 7]
    else:
        assert [len(one) for one in found] == [8, 8]
        assert {len(row) for row in found[1]} == {9}
    several = run(runner, path, "-o", path.parent / "y.timeline.json")
    assert several.exit_code == 2
    assert "this format holds one device; choose it with --device: 0, 1" in several.stderr
    assert not (path.parent / "y.timeline.json").exists()


def test_memory_timeline_can_be_a_page(
    runner: CliRunner, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = path.parent / "x.html"
    asked = (path, "--format", "memory-timeline", "--device", 0, "-o")
    packed = run(runner, *asked, f"{out}.gz")
    assert (packed.exit_code, packed.stdout) == (2, "")
    assert ": browsers can't open a compressed page; end the name in .html" in packed.stderr
    pytest.importorskip("matplotlib")
    result = run(runner, *asked, out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "bytes by guessed category over time as memory-timeline, 8 changes" in result.stderr
    assert b'src="data:image/png;base64,' in out.read_bytes()
    monkeypatch.setattr("memreplay.render.plot.find_spec", lambda _: None)
    without = run(runner, *asked, path.parent / "y.html")
    assert (without.exit_code, without.stdout) == (2, "")
    assert "(the extra 'plot')" in without.stderr
    assert not (path.parent / "y.html").exists()


def test_memory_timeline_works_for_segments_without_a_device(
    runner: CliRunner, tmp_path: Path
) -> None:
    made = build.SnapshotBuilder().alloc(0x1000, 10)
    made.segment(0x9000, 4096, device=-1, blocks=[made.block(0x9000, 4096, 4000)])
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(made.build()))
    asked = [path, "--format", "memory-timeline"]
    refused = run(runner, *asked)
    assert refused.stderr.endswith("this format holds one device; choose it with --device: -1, 0\n")
    result = run(runner, *asked, "--device", -1)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [[-1], [[0, 0, 0, 0, 0, 0, 0, 0, 4000]]]


def collapsed(runner: CliRunner, path: Path, *args: object) -> list[str]:
    result = run(runner, path, "--format", "collapsed", *args)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


def test_measure_and_moment_can_be_chosen(runner: CliRunner, path: Path) -> None:
    total = {
        args: sum(int(line.rpartition(" ")[2]) for line in collapsed(runner, path, *args))
        for args in (
            ("--device", 0),
            ("--device", 0, "--at", "end"),
            ("--device", 0, "--at", "step#1"),
            ("--device", 0, "--what", "allocated"),
            ("--device", 0, "--include", "model"),
            ("--device", 0, "--only", "pool=0:1"),
        )
    }
    assert list(total.values()) == [4700, 1054, 1700, 4054, 1000, 3000]


def test_all_frames_option_includes_pytorchs_frames(runner: CliRunner, path: Path) -> None:
    assert not any("functional.py" in line for line in collapsed(runner, path))
    assert any("functional.py" in line for line in collapsed(runner, path, "--all-frames"))


def test_notes_are_printed_to_stderr(runner: CliRunner, path: Path) -> None:
    result = run(runner, path, "--format", "collapsed", "--at", "5")
    assert result.exit_code == 0
    assert result.stderr == "memreplay: device 1 has no event 5; its events: 0 to 2\n"
    cut = path.parent / "cut.pkl"
    whole = path.read_bytes()
    cut.write_bytes(whole[: len(whole) * 19 // 20])
    result = run(runner, cut, "--format", "collapsed", "--salvage")
    assert result.stderr.endswith(
        "the snapshot is cut off, so these numbers cover only its intact part\n"
    )
    for more, words in (
        (
            ("--only", "min-bytes=1TiB"),
            "memreplay: no selected allocation was live then, so the graph is empty\n",
        ),
        (
            ("--what", "allocated", "--only", "min-bytes=1TiB"),
            "memreplay: the range has no selected allocation, so the graph is empty\n",
        ),
    ):
        for fmt in ("speedscope", "collapsed", "pprof"):
            result = run(runner, path, "--format", fmt, *more)
            assert (result.exit_code, result.stderr) == (0, words)
    timeless = path.parent / "timeless.pkl"
    timeless.write_bytes(build.dump(views.everything(times=False)))
    result = run(runner, timeless, "--format", "chrome", "--device", 0)
    assert (
        result.stderr == "memreplay: device 0: its events have no times, so each event takes 1 us\n"
    )
    result = run(runner, timeless, "--format", "memory-timeline", "--device", 0)
    assert (
        result.stderr == "memreplay: device 0: its events have no times, so each event takes 1 us\n"
    )


@pytest.mark.parametrize(
    "args, words",
    [
        (("--format", "chrome", "--at", "end"), "--at is for perfetto, speedscope"),
        (("--format", "perfetto", "--what", "live"), "--what is for speedscope"),
        (("--format", "pprof", "--points", "5"), "--points is for perfetto, chrome, not for pprof"),
        (("--format", "csv", "--measure", "held"), "--measure is for perfetto"),
        (("--format", "csv", "--include", "x"), "a filter (--include, --only …) is for"),
        (("--format", "chrome", "--tables", "usage"), "--tables is for parquet"),
        (("--format", "memory-timeline", "--all-frames"), "--all-frames is for"),
        (
            ("--format", "pprof", "--measure", "held,active"),
            "pprof holds one measure; give one --measure",
        ),
        (("--format", "collapsed", "--measure", "reserved"), "reserved memory has no stacks"),
        (("--format", "pprof", "--what", "allocated", "--at", "end"), "leave out --at"),
        (("--format", "collapsed", "--at", "NoSuch"), "no annotation 'NoSuch'"),
        (("--measure", "wrong", "--format", "chrome"), "'wrong' is not one of"),
        (("--points", "-1", "--format", "chrome"), "-1 is not between 0 and 1,000,000"),
    ],
)
def test_incompatible_options_are_rejected(
    runner: CliRunner, path: Path, args: tuple[str, ...], words: str
) -> None:
    result = run(runner, path, *args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_folder_is_rejected(runner: CliRunner, path: Path) -> None:
    for out in (str(path.parent), f"{path.parent}/new/"):
        result = run(runner, path, "--format", "pprof", "-o", out)
        assert (result.exit_code, result.stderr) == (
            2,
            f"memreplay: error: {out} is a folder: pprof is one file\n",
        )


def test_several_snapshots_are_rejected(runner: CliRunner, path: Path) -> None:
    result = run(runner, path, path, "--format", "pprof")
    assert (result.exit_code, result.stderr) == (
        2,
        "memreplay: error: pprof holds one snapshot; give one FILE\n",
    )


def test_tables_are_not_compressed(runner: CliRunner, path: Path) -> None:
    for name in ("usage.json.gz", "x.csv.zst"):
        result = run(runner, path, "-o", path.parent / name)
        assert result.exit_code == 2
        assert ": tables aren't compressed again; parquet already is" in result.stderr


@pytest.mark.parametrize("fmt", VIEWS)
def test_file_that_is_not_a_snapshot_writes_nothing(
    runner: CliRunner, tmp_path: Path, fmt: str
) -> None:
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(b"nothing")
    result = run(runner, bad, "--format", fmt, "-o", tmp_path / "out")
    assert result.exit_code == 3
    assert [one.name for one in tmp_path.iterdir()] == ["bad.pkl"]


@pytest.mark.parametrize("fmt", VIEWS)
@pytest.mark.parametrize(
    "snapshot",
    [{"segments": [], "device_traces": [[]]}, {"device_traces": [[{"action": "alloc"}]]}],
)
def test_empty_snapshot_gives_no_traceback(
    runner: CliRunner, tmp_path: Path, fmt: str, snapshot: dict[str, Any]
) -> None:
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(snapshot))
    result = run(runner, made, "--format", fmt, "-o", tmp_path / "out")
    assert result.exit_code == (2 if fmt == "memory-timeline" and "segments" in snapshot else 0)
    assert "Traceback" not in result.output
