"""`memreplay export`: write a smaller snapshot, tables, or traces for other tools."""

from __future__ import annotations

from collections.abc import Callable

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.export import lines_file, page, snapshots, tables, views
from memreplay.commands.export.options import Export, ExportOptions, ExportOutput
from memreplay.commands.shared.declaring import Files, as_command
from memreplay.commands.shared.source import Reading
from memreplay.errors import UsageError
from memreplay.export.naming import TABLES, VIEWS, Kind, format_of, kind_of

_TRACES = ("perfetto", "chrome")
_STACKS = ("speedscope", "collapsed", "pprof")
_SNAPSHOTS = ("pickle", "json")
# Maps options to the formats that support them.
_FITS = {
    "tables": TABLES,
    "flat": TABLES,
    "measures": VIEWS,
    "pool": VIEWS,
    "stream": VIEWS,
    "filters": VIEWS,
    "at": ("perfetto", *_STACKS),
    "all_frames": ("perfetto", *_STACKS),
    "what": _STACKS,
    "points": _TRACES,
    "strip_frames": _SNAPSHOTS,
    "host": _SNAPSHOTS,
    "protocol": ("pickle",),
}
_SPELLED = {
    "measures": "--measure",
    "filters": "a filter (--include, --only …)",
    "pool": "--only pool",
    "stream": "--only stream",
}
_EXPORT: dict[Kind, Callable[[Export], int]] = {
    "snapshot": snapshots.export,
    "lines": lines_file.export,
    "tables": tables.export,
    "views": views.export,
    "page": page.export,
}


@as_command(
    "export",
    examples=(
        "memreplay export snap.pkl -o tables/",
        "memreplay export snap.pkl --from 1.5s --to 2s -o small.pickle",
        "memreplay export snap.pkl -o snap.pftrace",
        "memreplay export snap.pkl -o snap.json.zst",
        "memreplay export snap.pkl --only min-bytes=1MiB --strip-frames plumbing -o small.pkl",
        "memreplay export snap.pkl --protocol 2 -o for-python2.pkl",
        "memreplay export snap.pkl --format txt | less",
        "memreplay export snap.pkl --format ndjson | jq -c 'select(.action == \"oom\")'",
        "memreplay export snap.pkl -o allocations.csv --flat",
        "memreplay export rank*.pkl -o dataset/",
        "memreplay export snap.pkl -o peak.speedscope.json --at 'ProfilerStep#3:peak'",
        "memreplay export snap.pkl --format collapsed | flamegraph.pl > peak.svg",
        "memreplay export snap.pkl -o page.html",
    ),
    without=("measure", "by", "top", "strict"),
    words={
        "as_json": "Short for --format json.",
        "measures": "Which bytes to show in a trace or flame graph (default: all in a trace,"
        " requested in a flame graph).",
    },
)
def command(
    files: Files,
    options: ExportOptions,
    output: ExportOutput,
    selection: Selection,
    reading: Reading,
) -> int:
    """Convert FILE to the format that OUT's extension names: a snapshot (.pkl, .json), its lines
    (.txt), tables (.parquet, .csv), a trace (.pftrace), a flame graph (.speedscope.json, .pb.gz) or
    a page (.html). --from and --to limit what is written.
    """
    fmt = format_of(output.output, options.format, folder=False)
    kind = kind_of(fmt, output.output, options.format, tables=_wants_tables(options))
    asked = Export(files, fmt, kind, options, selection, reading, output.output, output.force)
    _check_fit(asked)
    return _EXPORT[kind](asked)


def _wants_tables(options: ExportOptions) -> bool:
    return options.tables is not None or options.flat


def _check_fit(asked: Export) -> None:
    """Raise UsageError for an option that doesn't apply to the format."""
    for name, formats in _FITS.items():
        value = getattr(asked.options if hasattr(asked.options, name) else asked.selection, name)
        if value is None or value is False or value == ():
            continue
        if asked.fmt in formats and (asked.kind == "tables") == (formats is TABLES):
            continue
        if name == "filters" and asked.kind == "snapshot" and _is_size_alone(asked):
            continue
        option = _SPELLED.get(name, "--" + name.replace("_", "-"))
        fmt = "tables" if asked.kind == "tables" else asked.fmt
        raise UsageError(f"{option} is for {', '.join(formats)}, not for {fmt}")


def _is_size_alone(asked: Export) -> bool:
    """Return whether a minimum size is the only filter."""
    filters = asked.selection.filters
    return filters is None or filters == type(filters)(min_bytes=filters.min_bytes)
