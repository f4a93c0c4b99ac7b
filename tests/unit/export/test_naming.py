"""Tests of how a file name selects the format and table."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.errors import UsageError
from memreplay.export.naming import format_of, is_folder, table_of
from memreplay.export.tables import TABLES

MEANT = {
    "x.pkl": "pickle",
    "x.pickle.zst": "pickle",
    "x.json.xz": "json",
    "x.txt.gz": "txt",
    "x.parquet": "parquet",
    "a.b.pq": "parquet",
    "x.feather": "arrow",
    "x.csv": "csv",
    "x.jsonl": "ndjson",
    "x.json": "json",
    "trace.v2.json": "json",
    "x.pftrace.gz": "perfetto",
    "x.perfetto": "perfetto",
    "x.perfetto_trace": "perfetto",
    "x.perfetto.json": "chrome",
    "x.chrome.json": "chrome",
    "x.chrome_trace.json.gz": "chrome",
    "host_1.1700.pt.trace.json": "chrome",
    "runs.d/trace.json": "chrome",
    "x.speedscope": "speedscope",
    "SPEEDSCOPE.JSON": "speedscope",
    "x.collapsed": "collapsed",
    "x.collapsed.txt": "collapsed",
    "x.folded.gz": "collapsed",
    "x.pb.gz": "pprof",
    "x.pprof": "pprof",
    "x.memory-timeline.json": "memory-timeline",
    "memory_timeline.json.gz": "memory-timeline",
    "x.raw.json.gz": "memory-timeline",
    "page.html": "html",
    "x.timeline.HTM": "html",
    "no_ending": "parquet",
    "run.1/": "parquet",
    "/dev/fd/63": "parquet",
}


@pytest.mark.parametrize("name, fmt", MEANT.items())
def test_name_selects_the_format(name: str, fmt: str) -> None:
    assert format_of(name, None, folder=False) == fmt
    assert format_of(name, fmt, folder=False) == fmt


@pytest.mark.parametrize(
    "name, fmt, words",
    [
        (None, None, "give a format (--format) or an output file (-o OUT)"),
        ("-", None, "give a format (--format) or an output file (-o OUT)"),
        (
            "x.dat",
            None,
            (
                "x.dat: no format has this suffix; known suffixes: .pkl, .json, .ndjson, .txt,"
                " .parquet, .arrow, .csv, .pf"
            ),
        ),
        ("x.csv", "pickle", "means csv, but --format is pickle; end the name in .pkl, or"),
        ("x.pftrace.zst", None, "x.pftrace.zst: no format has this suffix; "),
        ("x.parquet", "csv", "means parquet, but --format is csv; end the name in .csv, or"),
        ("x.trace.json", "json", "means chrome, but --format is json; end the name in .json"),
        (
            "mt.html",
            "perfetto",
            (
                "mt.html: the suffix means html, but --format is perfetto; end the name in"
                " .pftrace, or leave --format out"
            ),
        ),
        (
            "mt.png",
            "memory-timeline",
            "memory-timeline is .timeline.json or .raw.json, or a page with",
        ),
        (
            "x.memory-timeline.png",
            None,
            "memreplay timeline FILE --by category --format png -o OUT.png",
        ),
        (
            "x.svg",
            None,
            "x.svg: export doesn't write pictures; memreplay timeline FILE --format png",
        ),
    ],
)
def test_name_that_contradicts_the_format_or_has_none_is_an_error(
    name: str | None, fmt: str | None, words: str
) -> None:
    with pytest.raises(UsageError) as error:
        format_of(name, fmt, folder=False)
    assert words in str(error.value)


def test_unknown_names_need_a_format() -> None:
    for name in ("x.txt", "x.dat", "x"):
        assert format_of(name, "csv", folder=False) == "csv"
    for fmt in ("chrome", "speedscope", "memory-timeline", "json"):
        assert format_of("x.json", fmt, folder=False) == fmt
    assert format_of("x.html", "memory-timeline", folder=False) == "memory-timeline"
    assert format_of("x.html", None, folder=False) == "html"
    assert format_of("x.d", None, folder=True) == "parquet"
    assert format_of("-", "csv", folder=False) == "csv"


def test_trailing_slash_means_a_folder(tmp_path: Path) -> None:
    assert is_folder("x/")
    assert is_folder(str(tmp_path))
    assert not is_folder(str(tmp_path / "x"))
    assert not is_folder(None)


@pytest.mark.parametrize(
    "name, table, said",
    [
        ("usage.csv", "usage", True),
        ("runs/snap.usage.csv", "usage", True),
        ("my_frames-2.parquet", "frames", True),
        ("EVENTS.CSV", "events", True),
        ("usage.d/foo.csv", "allocations", False),
        ("allocations.csv", "allocations", True),
        ("usages.csv", "allocations", False),
        (None, "allocations", False),
        ("-", "allocations", False),
    ],
)
def test_name_selects_the_table(name: str | None, table: str, said: bool) -> None:
    assert table_of(name, tuple(TABLES)) == (table, said)


@pytest.mark.parametrize(
    "name, words",
    [
        ("events_usage.csv", "is it the table events or usage? Give --tables"),
        ("timeline.csv", "unknown table 'timeline': end the name in .timeline.json for the"),
        ("snap_chrome.json", "end the name in .trace.json for the format chrome, or give --tables"),
        ("flame.json", "end the name in .speedscope.json for the format speedscope, or give"),
    ],
)
def test_ambiguous_name_is_an_error(name: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        table_of(name, tuple(TABLES))
    assert words in str(error.value)
