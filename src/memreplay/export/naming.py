"""Infer an export's format and table from the output's name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from memreplay.errors import UsageError
from memreplay.io.packing import PACKINGS

Kind = Literal["snapshot", "lines", "tables", "views", "page"]
"""What a format holds: a snapshot, its lines, its tables, a view for other tools, or the page."""


class Form(NamedTuple):
    """What a format contains, and its file suffixes, the usual one first."""

    kind: Kind
    endings: tuple[str, ...]


FORMATS = {
    "pickle": Form("snapshot", (".pkl", ".pickle")),
    "json": Form("snapshot", (".json",)),
    "ndjson": Form("lines", (".ndjson", ".jsonl")),
    "txt": Form("lines", (".txt",)),
    "parquet": Form("tables", (".parquet", ".pq")),
    "arrow": Form("tables", (".arrow", ".feather", ".ipc")),
    "csv": Form("tables", (".csv",)),
    "perfetto": Form("views", (".pftrace", ".perfetto-trace", ".perfetto_trace", ".perfetto")),
    "chrome": Form(
        "views",
        (
            ".trace.json",
            ".chrome.json",
            ".chrome-trace.json",
            ".chrome_trace.json",
            ".perfetto.json",
        ),
    ),
    "speedscope": Form("views", (".speedscope.json", ".speedscope")),
    "collapsed": Form("views", (".collapsed", ".folded", ".collapsed.txt", ".folded.txt")),
    "pprof": Form("views", (".pb.gz", ".pb", ".pprof")),
    "memory-timeline": Form(
        "views",
        (
            ".timeline.json",
            ".memory-timeline.json",
            ".memory_timeline.json",
            ".raw.json",
        ),
    ),
    "html": Form("page", (".html", ".htm")),
}
# A memory timeline can also have this suffix, but only with --format.
PAGES = FORMATS["html"].endings
# Table formats. Two of them can also hold the whole snapshot; these export it if no table is named.
TABLES = ("parquet", "arrow", "csv", "ndjson", "json")
VIEWS = tuple(fmt for fmt, form in FORMATS.items() if form.kind == "views")
# Formats that accept a suffix although it usually means another format.
_ALSO = {
    "json": ("json", "chrome", "speedscope", "memory-timeline"),
    "html": ("memory-timeline",),
    "txt": ("csv", "ndjson", "json", "collapsed"),
}
# Suffixes of image files, which aren't an export format.
_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
# Words in a table's file name that suggest that the user wants a view.
_OF_VIEWS = {
    "chrome": "chrome",
    "collapsed": "collapsed",
    "flame": "speedscope",
    "flamegraph": "speedscope",
    "folded": "collapsed",
    "perfetto": "perfetto",
    "pprof": "pprof",
    "speedscope": "speedscope",
    "timeline": "memory-timeline",
    "trace": "chrome",
}


def is_folder(output: str | None) -> bool:
    """Return whether a name means a folder: it ends with a separator, or the folder exists."""
    return output is not None and (output.endswith(("/", os.sep)) or os.path.isdir(output))


def format_of(output: str | None, fmt: str | None, *, folder: bool) -> str:
    """Return the format given by `fmt` or the output's longest known suffix, ignoring case.

    `folder`: the output is a folder, whatever its name. For folders and names without a suffix,
    it's parquet. Raises UsageError if there is no format, if `fmt` and the suffix differ, or if the
    format is unknown.
    """
    if output is None or output == "-":
        if fmt is None:
            raise UsageError("give a format (--format) or an output file (-o OUT)")
        return fmt
    if folder or is_folder(output) or not os.path.splitext(os.path.basename(output))[1]:
        by_name = _by_ending(output)
        return fmt or by_name or "parquet"
    _check_picture(output, fmt)
    by_name = _by_ending(output)
    if fmt is None and by_name is None:
        raise UsageError(f"{output}: no format has this suffix; {_endings()}; or give --format")
    found = fmt or by_name
    assert found is not None
    form_of = _ALSO.get(by_name or "", ())
    if by_name not in (None, found) and found not in form_of:
        usual = FORMATS[found].endings[0]
        raise UsageError(
            f"{output}: the suffix means {by_name}, but --format is {found}; end the name"
            f" in {usual}, or leave --format out"
        )
    return found


def kind_of(fmt: str, output: str | None, asked: str | None, *, tables: bool) -> Kind:
    """Return what to export: tables if `tables` is set or if the output is a folder or has a
    table's name; otherwise what the format usually contains.

    `asked`: the format given by --format. Raises UsageError like `table_of`.
    """
    kind = FORMATS[fmt].kind
    if fmt not in TABLES or kind == "tables":
        return kind
    if tables or is_folder(output):
        return "tables"
    from memreplay.export.tables.schema import TABLES as NAMES  # imported late: rarely needed

    named = _words_in(output, tuple(NAMES)) if asked else table_of(output, tuple(NAMES))[1]
    return "tables" if named else kind


def check_one_file(files: Sequence[str], output: str | None, fmt: str) -> None:
    """Raise UsageError if several snapshots or a folder are given with a single-file format."""
    if len(files) > 1:
        raise UsageError(f"{fmt} holds one snapshot; give one FILE")
    if is_folder(output):
        raise UsageError(f"{output} is a folder: {fmt} is one file")


def check_not_packed(output: str | None) -> None:
    """Raise UsageError for a table name with a compression suffix."""
    if output is not None and output.lower().endswith(tuple(PACKINGS)):
        raise UsageError(f"{output}: tables aren't compressed again; parquet already is")


def parse_format(text: str) -> str:
    """Parse a format name."""
    if text not in FORMATS:
        raise UsageError(f"{text!r} is not one of {', '.join(FORMATS)}")
    return text


def _by_ending(output: str) -> str | None:
    """Return the format for the name's longest suffix, ignoring compression suffixes. Plain `.json`
    counts as well.
    """
    name = "." + os.path.basename(output).lower()
    packing = next((one for one in PACKINGS if name.endswith(one)), "")
    found = [
        (len(ending), fmt)
        for fmt, form in FORMATS.items()
        for ending in form.endings
        if name.removesuffix(packing).endswith(ending) or name.endswith(ending)
    ]
    fmt = max(found)[1] if found else None
    if packing not in ("", ".gz") and fmt and FORMATS[fmt].kind in ("views", "page"):
        return None
    return fmt


def _check_picture(output: str, fmt: str | None) -> None:
    """Raise UsageError for an image's suffix. The message names the command that draws the
    image.
    """
    name = output.lower()
    ending = next((one for one in _PICTURES if name.endswith((one, one + ".gz"))), None)
    if ending is None:
        return
    of_torch = fmt == "memory-timeline" or "timeline" in os.path.basename(name)
    raise UsageError(
        f"{output}: export doesn't write pictures"
        + (
            "; memory-timeline is .timeline.json or .raw.json, or a page with a picture,"
            " .html. For only a picture: memreplay timeline FILE --by category --format"
            " png -o OUT.png"
            if of_torch
            else "; memreplay timeline FILE --format png -o OUT.png draws one"
        )
    )


def _endings() -> str:
    """Return each format's usual suffix."""
    return "known suffixes: " + ", ".join(form.endings[0] for form in FORMATS.values())


def table_of(output: str | None, tables: Sequence[str]) -> tuple[str, bool]:
    """Return the table whose name occurs as a word in the file name, or else `allocations`. Also
    return whether a table was named.

    Raises UsageError if several tables are named, or if a word suggests a view.
    """
    named = _words_in(output, tables)
    if len(named) > 1:
        raise UsageError(f"{output}: is it the table {' or '.join(named)}? Give --tables")
    if named:
        return named[0], True
    view = next(iter(_words_in(output, tuple(_OF_VIEWS))), None)
    if view is not None and output not in (None, "-"):
        fmt = _OF_VIEWS[view]
        usual = FORMATS[fmt].endings[0]
        raise UsageError(
            f"{output}: unknown table {view!r}: end the name in {usual} for the format {fmt},"
            f" or give --tables ({', '.join(tables)})"
        )
    return "allocations", False


def _words_in(output: str | None, words: Sequence[str]) -> list[str]:
    """Return which of these words the file name contains."""
    there = re.split(r"[^a-z]+", os.path.basename(output or "").lower())
    return [word for word in words if word in there]
