"""`memreplay sql`: queries and their restrictions, formats, several files, and one-line errors."""

from __future__ import annotations

import csv
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import memreplay as mr
from memreplay.commands.app import app
from memreplay.commands.peak.find import peak_report
from memreplay.commands.sql import command
from memreplay.errors import install_command
from memreplay.export.tables import TABLES
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT

EXAMPLE = str(ROOT / "tests/data" / "transformer_step.pkl.gz")
OTHER = str(ROOT / "tests/data" / "transformer_deeper.pkl.gz")
AT_PEAK = """
    with peak as (
      select device, coalesce(event_index, -1) as event from usage
      order by requested_bytes desc, event_index nulls first limit 1
    )
    select {} from flat join peak using (device)
    where coalesce(alloc_event, -1) <= event and coalesce(free_event, 1e18) > event
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    builder = SnapshotBuilder()
    for i, size in enumerate((64, 128)):
        builder.alloc(0x1000 * (i + 1), size, frames=[("train", "train.py", 1 + i)])
    made = tmp_path / "snap.pkl"
    made.write_bytes(build.dump(builder.build()))
    return str(made)


def sql(runner: CliRunner, *args: object, **options: str) -> Result:
    return runner.invoke(app, ["sql", *map(str, args)], **options)  # type: ignore[arg-type]


def rows(runner: CliRunner, *args: object) -> list[dict[str, object]]:
    result = sql(runner, *args, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def in_microseconds(table: pa.Table) -> list[dict[str, object]]:
    """Return rows whose times are integers, as in files and queries."""
    whole = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    found: list[dict[str, object]] = table.cast(pa.schema(whole)).to_pylist()
    return found


def refused(result: Result) -> str:
    """Check that the command failed with a one-line error, and return its message."""
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    return str(result.stderr).removeprefix("memreplay: error: ").rstrip("\n")


def test_tables_match_python(runner: CliRunner, path: str) -> None:
    snap = mr.open(path)
    for name in (*TABLES, "flat"):
        made = mr.table(snap, "allocations", flat=True) if name == "flat" else mr.table(snap, name)
        assert rows(runner, path, f"select * from {name}") == in_microseconds(made.to_arrow())


def test_query_at_the_peak_matches_peak(runner: CliRunner) -> None:
    for file in (EXAMPLE, OTHER):
        (device,) = peak_report(mr.open(file), by="line", top=0).devices
        query = AT_PEAK.format("function, file, line, sum(bytes) b, count(*) n") + " group by all"
        found = rows(runner, file, query)
        assert sum(row["b"] for row in found) == device.peak_bytes  # type: ignore[misc]
        assert sorted(
            (row["b"], row["n"], row["function"], row["file"], row["line"])
            for row in found
            if row["function"] is not None
        ) == sorted(
            (group.bytes, group.count, *(getattr(group.frames[0], n) for n in _FRAME))
            for group in device.groups
            if group.frames
        )


_FRAME = ("function", "file", "line")


def test_text_is_a_table(runner: CliRunner, path: str) -> None:
    columns = "file, line, sum(bytes) as total, null::text as n"
    query = f"select {columns} from flat group by all order by line"
    result = sql(runner, path, query)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "file      line  total  n",
        "train.py     1     64  null",
        "train.py     2    128  null",
    ]


def test_all_formats_have_the_same_rows(runner: CliRunner, path: str, tmp_path: Path) -> None:
    query = "select function, bytes, bytes, 'nan'::double x, [1, null] l, 1::hugeint h from flat"
    names = ["function", "bytes", "bytes_1", "x", "l", "h"]
    expected = [
        dict(zip(names, ["train", size, size, None, [1, None], 1], strict=True))
        for size in (64, 128)
    ]
    assert rows(runner, path, query) == expected
    lines = sql(runner, path, query, "--format", "ndjson").stdout.splitlines()
    assert [json.loads(line) for line in lines] == expected
    found = list(csv.reader(io.StringIO(sql(runner, path, query, "--format", "csv").stdout)))
    assert found[:2] == [names, ["train", "64", "64", "nan", "[1, null]", "1"]]
    for name in ("x.parquet", "x.csv", "x.json", "x.ndjson", "x.txt"):
        out = tmp_path / name
        result = sql(runner, path, query, "-o", out)
        assert (result.exit_code, result.output) == (0, "")
        assert out.stat().st_size
        assert "give --force to replace it" in refused(sql(runner, path, query, "-o", out))
    assert pq.read_table(tmp_path / "x.parquet")["bytes_1"].to_pylist() == [64, 128]
    nothing = "select * from events limit 0"
    assert rows(runner, path, nothing) == []
    assert sql(runner, path, nothing).stdout.startswith("device  event_index  action")


@pytest.mark.slow
def test_several_snapshots_share_the_tables(runner: CliRunner) -> None:
    query = "select snapshot, count(*) n from {} group by all order by 1"
    for name in (*TABLES, "flat"):
        found = rows(runner, EXAMPLE, OTHER, query.format(name))
        assert found == [
            {"snapshot": file, "n": mr.table(mr.open(file), one).rows}
            for file in sorted((EXAMPLE, OTHER))
            for one in ["allocations" if name == "flat" else name]
        ]
    # Strings from different files aren't mixed up, and a table can be read twice.
    both = "select a.file from flat a semi join flat b on a.file = b.file where a.snapshot = '{}'"
    files = {
        file: rows(runner, file, "select distinct file from flat") for file in (EXAMPLE, OTHER)
    }
    for file, expected in files.items():
        found = rows(runner, EXAMPLE, OTHER, f"select distinct * from ({both.format(file)})")
        key = lambda row: str(row["file"])  # noqa: E731
        assert sorted(found, key=key) == sorted(
            (row for row in expected if row["file"] is not None), key=key
        )


def test_tables_are_listed(runner: CliRunner, path: str) -> None:
    result = sql(runner, path)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == [*TABLES, "flat"]
    assert heads[0] == "events  2 rows"
    assert lines[1].startswith("  device int32, event_index int64, action text?, ")
    assert max(map(len, lines)) <= 100
    assert lines[-1].endswith("is_user bool?")
    assert "snapshot text" in sql(runner, path, EXAMPLE).stdout


def test_query_may_come_from_standard_input(runner: CliRunner, path: str) -> None:
    result = sql(runner, path, "-", input="select 1 as a,\n  2 as b -- a comment\n")
    assert (result.exit_code, result.stdout) == (0, "a  b\n1  2\n")
    assert "standard input can be the snapshot or the query, not both" in refused(
        sql(runner, "-", "-", input="select 1")
    )


def test_query_may_have_several_statements(runner: CliRunner, path: str) -> None:
    query = "create table x as select bytes from allocations; select sum(bytes) s from x"
    assert rows(runner, path, query) == [{"s": 192}]


@pytest.mark.parametrize(
    "query, words",
    [
        ("select foo from events", 'SQL: Referenced column "foo" not found in FROM clause!'),
        ("select function from allocations", "(it is a column of frames, flat)"),
        ("selec 1", "SQL: syntax error at or near \"selec\" (line 1, at 'selec 1')"),
        ("select * from nothing", "SQL: Table with name nothing does not exist!"),
        ("select cast(action as int) from events", "SQL: Could not convert string 'alloc'"),
        ("select 1 +", "SQL: "),
        (" ", "the query is empty"),
        ("", "the query is empty"),
    ],
)
def test_errors_take_one_line(runner: CliRunner, path: str, query: str, words: str) -> None:
    for fmt in ("text", "json", "csv"):
        assert words in refused(sql(runner, path, query, "--format", fmt))


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        "select * from read_text('{file}')",
        "select * from glob('{folder}/*')",
        "copy events to '{folder}/out.csv'",
        "export database '{folder}/out'",
        "attach '{folder}/out.db'",
        "install httpfs",
        "load httpfs",
        "select * from 'https://127.0.0.1:1/x.csv'",
        "set enable_external_access = true",
        "set temp_directory = '{folder}'",
        "reset lock_configuration",
        "select * from path",
        "select * from runner",
    ],
)
def test_query_can_read_only_the_tables(
    runner: CliRunner, path: str, tmp_path: Path, query: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nsecret-word\n")
    before = sorted(os.listdir(tmp_path))
    result = sql(runner, path, query.format(file=secret, folder=tmp_path))
    assert "secret-word" not in refused(result)
    assert sorted(os.listdir(tmp_path)) == before


def test_files_are_readable_if_allowed(runner: CliRunner, path: str, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a\n5\n")
    query = f"select a from '{file}'"
    assert "--allow-files" not in query
    denied = refused(sql(runner, path, f"select * from read_csv('{file}')"))
    assert denied.endswith("; --allow-files lets a query do this")
    assert rows(runner, path, query, "--allow-files") == [{"a": 5}]


def test_usage_errors_are_reported(runner: CliRunner, path: str) -> None:
    for args, words in (
        (["select 1"], "give a FILE before the query"),
        ([path, "--format", "csv"], "without a query there is no result to write"),
        (
            [path, "select 1", "-o", "x.xml"],
            "x.xml: no format has this suffix; known suffixes: .csv, .json",
        ),
    ):
        assert words in refused(sql(runner, *args))
    missing = sql(runner, path, "missing.pkl", "select 1")
    assert (missing.exit_code, missing.stderr) == (
        3,
        "memreplay: error: missing.pkl: no such file\n",
    )


@pytest.mark.parametrize(
    "module, words",
    [
        ("duckdb", "sql needs DuckDB 1.5 or later"),
        ("pyarrow", "sql needs pyarrow"),
    ],
)
def test_missing_packages_are_an_error(
    runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch, module: str, words: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert refused(sql(runner, path, "select 1")) == f"{words}: {install_command('sql')}"


def test_old_duckdb_is_an_error(
    runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duckdb.__version__", "1.4.4")
    words = "sql needs DuckDB 1.5 or later, and this is 1.4.4: pip install"
    assert refused(sql(runner, path, "select 1")).startswith(words)


def test_ranges_and_truncated_files_are_read(runner: CliRunner, path: str, tmp_path: Path) -> None:
    found = rows(runner, path, "select bytes, carried_over from flat", "--from", "1")
    assert [(row["bytes"], row["carried_over"]) for row in found] == [(64, True), (128, False)]
    cut = tmp_path / "cut.pkl"
    cut.write_bytes(Path(path).read_bytes()[:-60])
    result = sql(runner, cut, "select 1 as a", "--salvage")
    assert (result.exit_code, result.stdout) == (0, "a\n1\n")
    assert result.stderr == (
        "memreplay: the snapshot is cut off, so these numbers cover only its intact part\n"
    )


def test_query_takes_bounded_memory_and_time(runner: CliRunner, path: str, tmp_path: Path) -> None:
    many = "select range(1000000000)"
    assert refused(sql(runner, path, many, "--memory", "512MiB")) == (
        "the query needs more than 512.0 MiB of memory; aggregate, or allow more with --memory SIZE"
    )
    endless = "select count(*) from range(1000000000000)"
    out = tmp_path / "rows.csv"
    assert refused(sql(runner, path, endless, "--timeout", "0.5", "-o", out)) == (
        "the query took longer than 0.5 s and was stopped; narrow it with where or limit, or allow"
        " more with --timeout SECONDS"
    )
    assert not out.exists()
    assert "give at least 256MiB" in refused(sql(runner, path, many, "--memory", "1MiB"))


def test_failure_midway_leaves_no_file(runner: CliRunner, path: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    out.write_text("old")
    query = "select i, case when i = 900000 then error('no') else i end from range(1000000) t(i)"
    result = sql(runner, path, query, "-o", out, "--force")
    assert "no" in refused(result)
    assert out.read_text() == "old"


@pytest.mark.parametrize("name", ["fork", "poll"])
def test_query_runs_in_this_process_where_there_is_no_other(
    runner: CliRunner, path: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As on Windows and in browsers."""
    if name == "fork":
        monkeypatch.delattr(os, "fork")
    else:
        monkeypatch.delattr(select, "poll")
    assert rows(runner, path, "select sum(bytes) s from flat") == [{"s": 192}]
    assert "SQL: " in refused(sql(runner, path, "selekt 1"))


def test_machine_memory_is_that_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, expected in (("max\n", 8 << 30), (f"{4 << 30}\n", 4 << 30), ("", 8 << 30)):
        pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": (8 << 30) // 4096}
        monkeypatch.setattr(os, "sysconf", pages.__getitem__)
        monkeypatch.setattr(
            command, "open", lambda *_, said=said, **__: io.StringIO(said), raising=False
        )
        assert command.machine_memory() == expected


@pytest.mark.slow
def test_closed_pipe_ends_quietly() -> None:
    args = f"{sys.executable} -m memreplay sql {EXAMPLE}"
    for fmt in ("text", "csv", "json"):
        done = subprocess.run(
            f"{args} 'select a.* from events a, events b' --format {fmt} | head -1",
            shell=True,
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.count(b"\n") == 1
        assert done.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["count(*)", "a.*"])
def test_ctrl_c_stops_a_query(what: str) -> None:
    summed = "a.event_index + b.event_index + c.event_index"
    query = f"select {what} from usage a, usage b, usage c where {summed} = -7"
    process = subprocess.Popen(
        [sys.executable, "-m", "memreplay", "sql", EXAMPLE, query],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, b"", b"")
