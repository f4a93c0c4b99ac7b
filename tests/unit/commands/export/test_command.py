"""Tests of commands/export/command.py: tables and datasets, and writing them."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow import dataset

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.export.dataset import host_of
from memreplay.commands.export.writing import read
from memreplay.engine.write._dump import dump
from memreplay.errors import install_command
from memreplay.export.naming import FORMATS
from memreplay.export.naming import TABLES as TABLE_FORMATS
from memreplay.export.tables import TABLES
from memreplay.render import units
from tests import build
from tests.build import SnapshotBuilder


def snapshot(sizes: list[int]) -> bytes:
    builder = SnapshotBuilder()
    for i, size in enumerate(sizes):
        builder.alloc(0x1000 * (i + 1), size)
    return build.dump(builder.build())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "snap.pkl"
    made.write_bytes(snapshot([64, 128]))
    return made


def wrote(result: Result, out: object) -> str:
    """Return the only line on stderr: what was written."""
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    start = f"memreplay: wrote {out}: "
    assert result.stderr.startswith(start)
    assert result.stderr.count("\n") == 1
    return str(result.stderr[len(start) : -1])


def test_recorder_notes_are_in_the_tables(runner: CliRunner, tmp_path: Path) -> None:
    run = {"version": 1, "cards": [{"name": "é", "total_bytes": 1 << 34}], "rank": None}
    path = tmp_path / "snap.pkl"
    path.write_bytes(build.dump(SnapshotBuilder().alloc(64, 5).top("memreplay", run).build()))
    result = runner.invoke(app, ["export", str(path), "-o", f"{tmp_path}/tables/"])
    assert result.exit_code == 0, result.output
    snap = mr.open(tmp_path / "tables")
    assert (snap.recorder, snap.card_bytes(0)) == (run, 1 << 34)


def left(folder: Path) -> list[str]:
    return sorted(os.path.relpath(p, folder) for p in folder.rglob("*") if p.is_file())


def test_folder_gets_all_tables(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    result = runner.invoke(app, ["export", str(path), "-o", f"{out}/"])
    assert left(out) == sorted(f"{name}.parquet" for name in TABLES)
    n_bytes = units.size(sum(one.stat().st_size for one in out.iterdir()))
    assert wrote(result, f"{out}/") == (
        f"8 files as parquet, {n_bytes}; rows: events 2, allocations 2, stacks 1, frames 1,"
        " segments 0, blocks 0, annotations 0, usage 3"
    )
    assert pq.read_table(out / "allocations.parquet")["bytes"].to_pylist() == [64, 128]
    assert os.listdir(tmp_path) == ["snap.pkl", "tables"] or sorted(os.listdir(tmp_path)) == [
        "snap.pkl",
        "tables",
    ]


def test_name_without_a_suffix_is_a_folder(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    args = ["export", str(path), "-o", str(out), "--format", "csv", "--tables", "usage,events"]
    assert runner.invoke(app, args).exit_code == 0
    assert left(out) == ["events.csv", "usage.csv"]


@pytest.mark.parametrize(
    "name, start",
    [
        ("x.parquet", b"PAR1"),
        ("x.arrow", b"ARROW1"),
        ("x.csv", b'"device",'),
        ("X.PARQUET", b"PAR1"),
        ("X.Csv", b'"device",'),
    ],
)
def test_file_gets_allocations_in_the_format_of_its_suffix(
    name: str, start: bytes, runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    result = runner.invoke(app, ["export", str(path), "-o", str(tmp_path / name)])
    data = (tmp_path / name).read_bytes()
    fmt = name.lower()[2:]
    assert wrote(result, tmp_path / name) == (
        f"the table allocations as {fmt}, 2 rows, {units.size(len(data))}; --tables NAME for"
        " another: events, allocations, stacks, frames, segments, blocks, annotations, usage"
    )
    assert data.startswith(start)


@pytest.mark.parametrize("name, start", [("x.ndjson", b'{"device"'), ("x.json", b"[\n{")])
def test_output_is_a_table_if_an_option_or_the_file_names_one(
    name: str, start: bytes, runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    fmt = name[2:]
    out, named = tmp_path / name, tmp_path / f"usage.{fmt}"
    result = runner.invoke(app, ["export", str(path), "-o", str(out), "--tables", "allocations"])
    assert wrote(result, out).startswith(f"the table allocations as {fmt}, 2 rows, ")
    assert out.read_bytes().startswith(start)
    for more in ([], ["--format", fmt]):
        result = runner.invoke(app, ["export", str(path), "-o", str(named), "--force", *more])
        assert wrote(result, named).startswith(f"the table usage as {fmt}, 3 rows, ")
    flame = str(tmp_path / f"flame.{fmt}")
    assert runner.invoke(app, ["export", str(path), "-o", flame]).exit_code == 2
    assert runner.invoke(app, ["export", str(path), "-o", flame, "--format", fmt]).exit_code == 0


def test_file_named_like_a_table_gets_that_table(
    runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    for name, rows in (("usage.parquet", 3), ("frames.parquet", 1), ("blocks.parquet", 0)):
        for full in (name, f"my_{name}", f"1.{name.upper()}"):
            out = tmp_path / full
            result = runner.invoke(app, ["export", str(path), "-o", str(out)])
            words = f"the table {name[:-8]} as parquet, {rows} row{'' if rows == 1 else 's'}, "
            assert wrote(result, out) == words + units.size(out.stat().st_size)
            assert pq.read_metadata(out).num_rows == rows
            assert pq.read_schema(out).metadata[b"memreplay.table"] == name[:-8].encode()


def test_table_is_written_to_stdout(runner: CliRunner, path: Path) -> None:
    args = ["export", str(path), "--format", "ndjson", "--tables", "usage"]
    result = runner.invoke(app, args)
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["requested_bytes"] for row in rows] == [0, 64, 192]


def test_range_and_configuration_apply(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    config = tmp_path / "memreplay.toml"
    config.write_text('category_defaults = false\n[[category]]\nname = "all"\nframes = ""\n')
    args = ["export", str(path), "--format", "json", "--tables", "allocations", "--from", "1"]
    args += ["--config", str(config)]
    rows = json.loads(runner.invoke(app, args).stdout)
    assert [(row["carried_over"], row["alloc_event"]) for row in rows] == [(True, None), (False, 1)]


@pytest.mark.parametrize(
    "args, words",
    [
        ([], "give a format (--format) or an output file (-o OUT)"),
        (["--format", "xml"], "'xml' is not one of"),
        (
            ["-o", "x.csv", "--tables", "usage,events"],
            "several tables need a folder, with a file each; give -o DIR/",
        ),
        (["--format", "csv", "--tables", "use"], "unknown table 'use'; known: events"),
        (["-o", "missing/x.csv"], "there is no directory"),
        (["-o", "missing/tables/"], "there is no directory"),
    ],
)
def test_impossible_exports_give_a_one_line_error(
    args: list[str], words: str, runner: CliRunner, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    result = runner.invoke(app, ["export", path.name, *args])
    assert result.exit_code == 2
    assert words in result.stderr
    assert left(path.parent) == ["snap.pkl"]


def test_existing_file_without_a_suffix_is_a_file(
    runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    args = ["export", str(path), "--format", "csv", "-o"]
    assert runner.invoke(app, [*args, f"/dev/fd/{writing}"]).exit_code == 0
    os.close(writing)
    with open(reading) as got:
        assert got.readline().startswith('"device","address"')
    out = tmp_path / "out"
    out.write_text("mine")
    result = runner.invoke(app, [*args, str(out)])
    assert (result.exit_code, out.read_text()) == (2, "mine")
    assert "out already exists; give --force to replace it" in result.stderr
    assert runner.invoke(app, [*args, str(out), "--force"]).exit_code == 0
    assert out.read_text().startswith('"device","address"')


def test_unknown_suffix_is_an_error(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    for name in ("x.dat", "snap.pkl.lz4", "x.timeline.json.zst"):
        result = runner.invoke(app, ["export", str(path), "-o", str(tmp_path / name)])
        assert result.exit_code == 2
        usual = ", ".join(form.endings[0] for form in FORMATS.values())
        assert (
            f"{name}: no format has this suffix; known suffixes: {usual}; or give --format"
        ) in result.stderr
    args = ["--tables", "usage", "--format", "parquet"]
    for rest in (["-o", f"{tmp_path}/x.dat", *args], ["-o", f"{tmp_path}/run.1/"]):
        assert runner.invoke(app, ["export", str(path), *rest]).exit_code == 0
    (tmp_path / "run.2").mkdir()
    assert runner.invoke(app, ["export", str(path), "-o", str(tmp_path / "run.2")]).exit_code == 0
    assert left(tmp_path / "run.1") == left(tmp_path / "run.2")


def test_force_is_needed_to_overwrite(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    args = ["export", str(path), "-o", f"{out}/"]
    assert runner.invoke(app, args).exit_code == 0
    (out / "notes.txt").write_text("mine")
    before = (out / "usage.parquet").read_bytes()
    path.write_bytes(snapshot([1]))
    result = runner.invoke(app, args)
    assert result.exit_code == 2
    assert "events.parquet already exists; give --force to replace it" in result.stderr
    assert (out / "usage.parquet").read_bytes() == before
    # The other tables would be from another snapshot.
    result = runner.invoke(app, [*args, "--tables", "usage", "--force"])
    assert result.exit_code == 2
    assert "events.parquet may belong to another snapshot" in result.stderr
    assert (out / "usage.parquet").read_bytes() == before
    assert runner.invoke(app, [*args, "--force"]).exit_code == 0
    assert pq.read_table(out / "allocations.parquet")["bytes"].to_pylist() == [1]
    assert (out / "notes.txt").read_text() == "mine"
    assert left(out) == sorted(["notes.txt", *(f"{name}.parquet" for name in TABLES)])


@pytest.mark.parametrize("size, code", [(-20, 4), (5, 4), (0, 3)])
def test_broken_snapshot_writes_nothing(
    size: int, code: int, runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    path.write_bytes(path.read_bytes()[:size] if size else b"nonsense")
    for args in (["-o", f"{tmp_path}/tables/"], ["-o", f"{tmp_path}/x.parquet"]):
        result = runner.invoke(app, ["export", str(path), *args])
        assert result.exit_code == code
        assert result.stderr.count("\n") == 1
        assert sorted(os.listdir(tmp_path)) == ["snap.pkl"]


def test_truncated_snapshot_is_exported_with_salvage(
    runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    data = snapshot([64] * 50)
    path.write_bytes(data[: len(data) // 2])
    args = ["export", str(path), "--salvage", "-o", f"{tmp_path}/x.parquet"]
    said = "memreplay: the snapshot is cut off, so these numbers cover only its intact part\n"
    result = runner.invoke(app, args)
    assert (result.exit_code, result.stderr.count("\n")) == (0, 2)
    assert result.stderr.endswith(said)
    assert 0 < len(pq.read_table(tmp_path / "x.parquet")) < 50
    result = runner.invoke(app, [*args[:3], "-o", f"{tmp_path}/x/"])
    assert (result.exit_code, result.stderr.count("\n")) == (0, 2)
    assert result.stderr.endswith(said)
    os.rename(path, tmp_path / "rank0.pkl")
    (tmp_path / "rank1.pkl").write_bytes(data)
    several = [f"{tmp_path}/rank0.pkl", f"{tmp_path}/rank1.pkl"]
    result = runner.invoke(app, ["export", *several, "--salvage", "-o", f"{tmp_path}/y/"])
    assert (result.exit_code, result.stderr.count("\n")) == (0, 2)
    assert (
        "rank0.pkl: the snapshot is cut off, so these numbers cover only its intact part"
        in result.stderr
    )


def test_only_one_rank_at_a_time_is_in_memory(
    runner: CliRunner, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def noting(asked: Any, file: str) -> Any:
        assert [one() for one in seen] == [None] * len(seen)
        snapshot, exit_code = read(asked, file)
        assert snapshot is not None
        seen.append(weakref.ref(snapshot.replay(0)))  # the replay holds its tables
        return snapshot, exit_code

    for rank in range(3):
        (tmp_path / f"rank{rank}.pkl").write_bytes(path.read_bytes())
    monkeypatch.setattr("memreplay.commands.export.dataset.read", noting)
    gc.disable()  # a cycle must not keep the replay alive
    try:
        files = [str(tmp_path / f"rank{rank}.pkl") for rank in range(3)]
        args = ["export", *files, "-o", f"{tmp_path}/ds/"]
        assert runner.invoke(app, args).exit_code == 0
    finally:
        gc.enable()
    assert len(seen) == 3


def test_failed_write_leaves_no_file(
    runner: CliRunner, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memreplay.export.tables import parquet

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_parquet", full)
    for args in (["-o", f"{tmp_path}/tables/"], ["-o", f"{tmp_path}/x.parquet"]):
        result = runner.invoke(app, ["export", str(path), *args])
        assert result.exit_code == 2
        assert result.stderr == (
            "memreplay: error: can't write the output: no space left on device\n"
        )
        assert sorted(os.listdir(tmp_path)) == ["snap.pkl"]


def test_read_only_folder_gives_a_one_line_error(
    runner: CliRunner, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    result = runner.invoke(app, ["export", str(path), "-o", f"{tmp_path}/tables/"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "permission denied" in result.stderr


@pytest.mark.slow
def test_closed_pipe_ends_quietly() -> None:
    example = Path(__file__).parents[4] / "tests/data" / "transformer_step.pkl.gz"
    args = [sys.executable, "-m", "memreplay", "export", str(example), "--format", "ndjson"]
    piped = subprocess.run(
        f"{' '.join(args)} --tables events | head -1", shell=True, capture_output=True, check=True
    )
    assert json.loads(piped.stdout)["event_index"] == 0
    assert piped.stderr == b""


def test_tables_need_pyarrow(
    runner: CliRunner, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = runner.invoke(app, ["export", str(path), "-o", f"{tmp_path}/tables/"])
    assert result.exit_code == 2
    how = install_command("parquet")
    assert result.stderr == f"memreplay: error: tables need pyarrow: {how}\n"
    assert sorted(os.listdir(tmp_path)) == ["snap.pkl"]


def test_flat_table_names_the_allocating_code(
    runner: CliRunner, path: Path, tmp_path: Path
) -> None:
    builder = SnapshotBuilder()
    for address in (0x1000, 0x2000):
        builder.alloc(address, 96, frames=[("train", "train.py", 1)])
    path.write_bytes(build.dump(builder.build()))
    for fmt in TABLE_FORMATS:
        out = tmp_path / f"x.{fmt}"
        result = runner.invoke(app, ["export", str(path), "-o", str(out), "--flat"])
        assert wrote(result, out).startswith(f"the table allocations as {fmt}, 2 rows, ")
    rows = json.loads((tmp_path / "x.json").read_text())
    frame = {"module": None, "function": "train", "file": "train.py", "line": 1, "is_user": True}
    assert [{name: row[name] for name in frame} for row in rows] == [frame, frame]
    found = duckdb.execute(
        "select module, function, file, line, is_user, sum(bytes) from"
        f" '{tmp_path}/x.parquet' group by all"
    ).fetchall()
    assert found == [(*frame.values(), 192)]
    folder = runner.invoke(app, ["export", str(path), "-o", f"{tmp_path}/t/", "--flat"])
    assert folder.exit_code == 0
    assert pq.read_schema(tmp_path / "t" / "allocations.parquet").names[-5:] == list(frame)
    again, snap = mr.open(tmp_path / "t"), mr.open(path)
    assert b"".join(dump(again.native, True)) == b"".join(dump(snap.native, True))
    for args, words in (
        (["-o", "x.csv", "--flat", "--tables", "usage"], "--flat is for the table allocations, "),
        (["-o", "x.trace.json", "--flat"], "--flat is for parquet, "),
    ):
        result = runner.invoke(app, ["export", str(path), *args])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert words in result.stderr


# --- several ranks ----------------------------------------------------------------------------


@pytest.fixture
def ranks(tmp_path: Path) -> list[str]:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in (0, 3, 12):
        (folder / f"host-n{rank}_rank{rank}.pkl").write_bytes(snapshot([64] * (rank + 1)))
    return [str(one) for one in sorted(folder.iterdir())]


def test_ranks_become_one_dataset(runner: CliRunner, ranks: list[str], tmp_path: Path) -> None:
    out = tmp_path / "ds"
    args = ["export", *ranks, "-o", f"{out}/"]
    result = runner.invoke(app, args)
    assert wrote(result, f"{out}/").startswith("24 files as parquet, ")
    assert "; rows: events 18, allocations 18, stacks 3, frames 3, " in result.stderr
    assert left(out) == sorted(
        f"{name}/rank={rank}/host-n{rank}_rank{rank}.parquet"
        for name in TABLES
        for rank in (0, 3, 12)
    )
    rows = duckdb.execute(
        "select rank, host, file, max(requested_bytes) from"
        f" read_parquet('{out}/usage/*/*.parquet', hive_partitioning = true)"
        " group by all order by 1"
    ).fetchall()
    assert rows == [
        (rank, f"n{rank}", f"{tmp_path}/run/host-n{rank}_rank{rank}.pkl", 64 * (rank + 1))
        for rank in (0, 3, 12)
    ]
    assert runner.invoke(app, args).exit_code == 2
    assert runner.invoke(app, [*args, "--force"]).exit_code == 0
    for name in TABLES:
        made = dataset.dataset(out / name, partitioning="hive").to_table()
        assert polars.read_parquet(out / name).shape == made.shape
        assert len(set(made.column_names)) == made.num_columns
        whose = "snapshot_file" if name == "frames" else "file"
        assert made.column_names[-3:] == [whose, "host", "rank"]
    for rank, path in zip((0, 12, 3), ranks, strict=True):
        again, snap = mr.open(out / "events" / f"rank={rank}"), mr.open(path)
        assert b"".join(dump(again.native, True)) == b"".join(dump(snap.native, True))


def test_ranks_and_a_single_snapshot_cannot_share_a_folder(
    runner: CliRunner, ranks: list[str], tmp_path: Path
) -> None:
    plain = ["export", ranks[0], "-o", f"{tmp_path}/plain/"]
    parted = ["export", *ranks, "-o", f"{tmp_path}/parted/"]
    assert [runner.invoke(app, args).exit_code for args in (plain, parted)] == [0, 0]
    before = left(tmp_path)
    for args, words in (
        ([*plain[:-1], f"{tmp_path}/parted/"], "parted/ has tables from ranks (events/rank=0)"),
        (
            [*parted[:-1], f"{tmp_path}/plain/"],
            "plain/ has tables from one snapshot (allocations.parquet)",
        ),
    ):
        for more in ([], ["--force"], ["--tables", "blocks"], ["--format", "csv"]):
            result = runner.invoke(app, [*args, *more])
            assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
            assert words in result.stderr
            assert left(tmp_path) == before
    # Another rank is added to the existing ones.
    another = tmp_path / "rank7.pkl"
    another.write_bytes(snapshot([1]))
    added = ["export", str(another), ranks[0], "--force", *parted[-2:]]
    assert runner.invoke(app, added).exit_code == 0
    assert set(left(tmp_path / "parted")) > {"usage/rank=7/rank7.parquet"}


@pytest.mark.parametrize("output", [["-o", "ds.parquet"], ["--format", "csv"]])
def test_several_snapshots_need_a_folder(
    runner: CliRunner, ranks: list[str], output: list[str]
) -> None:
    result = runner.invoke(app, ["export", *ranks, *output])
    assert result.exit_code == 2
    assert "several snapshots go into a dataset, which is a folder: give -o DIR/" in result.stderr


def test_guessed_ranks_are_reported(runner: CliRunner, path: Path, tmp_path: Path) -> None:
    for i in range(5):
        (tmp_path / f"snap_{i}.pkl").write_bytes(path.read_bytes())
    files = [f"{tmp_path}/snap_{i}.pkl" for i in range(5)]
    args = ["export", *files, "-o", f"{tmp_path}/ds/"]
    result = runner.invoke(app, args)
    assert result.exit_code == 0
    assert result.stderr.startswith(
        f"memreplay: ranks taken from the only number that differs: 0 {files[0]}, 1 {files[1]}, "
        f"2 {files[2]}, 3 {files[3]}, …\nmemreplay: wrote "
    )
    for i in (0, 1):
        os.rename(files[i], tmp_path / f"ctx{256 << i}.pkl")
    files = [f"{tmp_path}/ctx256.pkl", f"{tmp_path}/ctx512.pkl"]
    result = runner.invoke(app, ["export", *files, *args[6:], "--force"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "the numbers 256, 512 come after 'ctx'; name the files like rank0.pkl" in result.stderr


def test_one_broken_rank_writes_nothing(
    runner: CliRunner, ranks: list[str], tmp_path: Path
) -> None:
    Path(ranks[1]).write_bytes(b"nonsense")
    args = ["export", *ranks, "-o", f"{tmp_path}/ds/"]
    result = runner.invoke(app, args)
    assert result.exit_code == 3
    assert ranks[1] in result.stderr
    assert sorted(os.listdir(tmp_path)) == ["run"]


@pytest.mark.parametrize(
    "path, host",
    [
        ("host-a_rank0.pkl", "a"),
        ("/x/hostname=node-17/rank0.pkl", "node-17"),
        ("host_n1/host.n2_rank0.pkl", "n2"),
        ("rank0.pkl", None),
        ("/host-far/run/rank0.pkl", None),
    ],
)
def test_host_is_found_in_the_path(path: str, host: str | None) -> None:
    assert host_of(path) == host


def test_python_can_read_a_table_by_name() -> None:
    assert mr.table(mr.open(snapshot([64])), "usage").to_arrow().num_rows == 2


# --- reading exports back
# -------------------------------------------------------------------------------


def test_every_command_reads_an_exported_folder(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Path(__file__).parents[4] / "tests/data" / "serving_oom.pkl.gz"
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["export", str(example), "-o", "tables/"]).exit_code == 0
    for command in (
        ["peak", "FILE"],
        ["at", "FILE", "end"],
        ["timeline", "FILE", "--format", "csv"],
        ["allocations", "FILE"],
        ["peak", "FILE", "--rules"],
        ["fragmentation", "FILE", "--segments"],
        ["fragmentation", "FILE"],
        ["oom", "FILE"],
        ["steps", "FILE", "--step", "period=100"],
        ["leaks", "FILE", "--step", "period=100"],
        ["diff", "FILE", "FILE"],
        ["gate", "FILE", "--max-peak", "1TiB"],
        ["gate", "FILE", "--base", "FILE", "--max-growth", "1%"],
        ["gate", "FILE", "--save-base", "-"],
        ["export", "FILE", "--format", "ndjson", "--tables", "allocations"],
        ["export", "FILE", "--format", "collapsed"],
    ):
        told = []
        for file in (str(example), "tables"):
            result = runner.invoke(app, [file if word == "FILE" else word for word in command])
            assert (result.exit_code, result.stderr) == (0, ""), command
            lines = [line for line in result.stdout.splitlines() if '"file"' not in line]
            told.append([line for line in lines if file not in line])
        assert told[0] == told[1], command


def test_exported_ranks_can_be_compared(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, sizes in (("a", [64]), ("b", [64, 128])):
        Path(f"{name}.pkl").write_bytes(snapshot(sizes))
        assert runner.invoke(app, ["export", f"{name}.pkl", "-o", f"{name}/"]).exit_code == 0
    result = runner.invoke(app, ["diff", "a", "b", "--format", "json"])
    assert json.loads(result.stdout)["devices"][0]["change_bytes"] == 128
    mixed = runner.invoke(app, ["diff", "a.pkl", "b", "--format", "json"])
    assert json.loads(mixed.stdout)["devices"][0]["change_bytes"] == 128
