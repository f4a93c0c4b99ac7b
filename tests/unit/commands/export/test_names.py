"""Which format and table a name means, told by names as people give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.commands.export.names import format_of, is_folder, table_of
from memreplay.errors import UsageError
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
def test_the_format_of_a_name(name: str, fmt: str) -> None:
    assert format_of(name, None, folder=False) == fmt
    assert format_of(name, fmt, folder=False) == fmt


@pytest.mark.parametrize(
    "name, fmt, words",
    [
        (None, None, "say what to write (--format), or where to (-o OUT)"),
        ("-", None, "say what to write (--format), or where to (-o OUT)"),
        (
            "x.dat",
            None,
            (
                "x.dat: no format has this ending; known endings: .pkl, .json, .ndjson, .txt,"
                " .parquet, .arrow, .csv, .pf"
            ),
        ),
        ("x.csv", "pickle", "means csv, and --format says pickle: end the name in .pkl, or"),
        ("x.pftrace.zst", None, "x.pftrace.zst: no format has this ending"),
        ("x.parquet", "csv", "means parquet, and --format says csv: end the name in .csv, or"),
        ("x.trace.json", "json", "means chrome, and --format says json: end the name in .json"),
        (
            "mt.html",
            "perfetto",
            (
                "mt.html: this ending means html, and --format says perfetto: end the name in"
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
            "x.svg: export writes no pictures; memreplay timeline FILE --format png",
        ),
    ],
)
def test_what_a_name_cannot_mean(name: str | None, fmt: str | None, words: str) -> None:
    with pytest.raises(UsageError) as error:
        format_of(name, fmt, folder=False)
    assert words in str(error.value)


def test_any_name_without_a_meaning_goes_with_a_format() -> None:
    for name in ("x.txt", "x.dat", "x"):
        assert format_of(name, "csv", folder=False) == "csv"
    for fmt in ("chrome", "speedscope", "memory-timeline", "json"):
        assert format_of("x.json", fmt, folder=False) == fmt
    assert format_of("x.html", "memory-timeline", folder=False) == "memory-timeline"
    assert format_of("x.html", None, folder=False) == "html"
    assert format_of("x.d", None, folder=True) == "parquet"
    assert format_of("-", "csv", folder=False) == "csv"


def test_folders(tmp_path: Path) -> None:
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
def test_the_table_of_a_name(name: str | None, table: str, said: bool) -> None:
    assert table_of(name, tuple(TABLES)) == (table, said)


@pytest.mark.parametrize(
    "name, words",
    [
        ("events_usage.csv", "is it the table events or usage? Give --tables"),
        ("timeline.csv", "no table is called 'timeline': end the name in .timeline.json for the"),
        ("snap_chrome.json", "end the name in .trace.json for the format chrome, or give --tables"),
        ("flame.json", "end the name in .speedscope.json for the format speedscope, or give"),
    ],
)
def test_a_name_that_means_several_things(name: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        table_of(name, tuple(TABLES))
    assert words in str(error.value)
