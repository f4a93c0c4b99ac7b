"""What the name of an export's output says: the format, and which table."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from memreplay.errors import UsageError
from memreplay.io.packing import PACKINGS

Kind = Literal["snapshot", "lines", "tables", "views", "page"]
"""What a format is of: the whole snapshot as one, all of it line by line, its tables, something for
a viewer, or the page."""


class Form(NamedTuple):
    """What a format is of, and the endings of names that mean it: the usual one first."""

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
# memory-timeline, too, has a form of this ending, which has to be asked for by --format.
PAGES = FORMATS["html"].endings
# Formats of tables; two of them hold the whole snapshot where no table is named.
TABLES = ("parquet", "arrow", "csv", "ndjson", "json")
VIEWS = tuple(fmt for fmt, form in FORMATS.items() if form.kind == "views")
# Formats that may have an ending that means another one.
_ALSO = {
    "json": ("json", "chrome", "speedscope", "memory-timeline"),
    "html": ("memory-timeline",),
    "txt": ("csv", "ndjson", "json", "collapsed"),
}
# What a picture ends in; no format is one.
_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
# Words in the name of a table's file that speak of a view.
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
    """Whether a name is that of a folder, by its last character or because it is one."""
    return output is not None and (output.endswith(("/", os.sep)) or os.path.isdir(output))


def format_of(output: str | None, fmt: str | None, *, folder: bool) -> str:
    """The format that is asked for by `fmt`, or by the name of the output: its longest ending that
    means one, in capitals or not. `folder` says that it is of a folder whatever its name is; that
    of a folder, and one without an ending, mean parquet.

    Raises UsageError where neither says it, where the two differ, and for what no format is.
    """
    if output is None or output == "-":
        if fmt is None:
            raise UsageError("say what to write (--format), or where to (-o OUT)")
        return fmt
    if folder or is_folder(output) or not os.path.splitext(os.path.basename(output))[1]:
        by_name = _by_ending(output)
        return fmt or by_name or "parquet"
    _check_picture(output, fmt)
    by_name = _by_ending(output)
    if fmt is None and by_name is None:
        raise UsageError(f"{output}: no format has this ending; {_endings()}; or give --format")
    found = fmt or by_name
    assert found is not None
    form_of = _ALSO.get(by_name or "", ())
    if by_name not in (None, found) and found not in form_of:
        usual = FORMATS[found].endings[0]
        raise UsageError(
            f"{output}: this ending means {by_name}, and --format says {found}: end the name in"
            f" {usual}, or leave --format out"
        )
    return found


def kind_of(fmt: str, output: str | None, asked: str | None, *, tables: bool) -> Kind:
    """What a format is of: where `tables` are asked for, or a folder, or the name says one, the
    tables. `asked` is the format that --format says. Raises UsageError as `table_of`."""
    kind = FORMATS[fmt].kind
    if fmt not in TABLES or kind == "tables":
        return kind
    if tables or is_folder(output):
        return "tables"
    from memreplay.export.tables.schema import TABLES as NAMES  # late: it loads NumPy

    named = _words_in(output, tuple(NAMES)) if asked else table_of(output, tuple(NAMES))[1]
    return "tables" if named else kind


def check_one_file(files: Sequence[str], output: str | None, fmt: str) -> None:
    """Raises UsageError for several snapshots, or a folder, of a format that is one file of one."""
    if len(files) > 1:
        raise UsageError(f"{fmt} holds one snapshot: name one FILE")
    if is_folder(output):
        raise UsageError(f"{output} is a folder: {fmt} is one file")


def check_not_packed(output: str | None) -> None:
    """Raises UsageError for the name of a table that is compressed."""
    if output is not None and output.lower().endswith(tuple(PACKINGS)):
        raise UsageError(
            f"{output}: tables are not written as gzip or the like; parquet is compressed as it is"
        )


def parse_format(text: str) -> str:
    """The name of a format."""
    if text not in FORMATS:
        raise UsageError(f"{text!r} is not one of {', '.join(FORMATS)}")
    return text


def _by_ending(output: str) -> str | None:
    """The format that the longest ending means, what compresses it aside; a name of nothing but an
    ending has it too."""
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
    """Raises UsageError for the name of a picture, which says what draws one."""
    name = output.lower()
    ending = next((one for one in _PICTURES if name.endswith((one, one + ".gz"))), None)
    if ending is None:
        return
    of_torch = fmt == "memory-timeline" or "timeline" in os.path.basename(name)
    raise UsageError(
        f"{output}: export writes no pictures"
        + (
            "; memory-timeline is .timeline.json or .raw.json, or a page with a picture, .html. For"
            " a picture alone: memreplay timeline FILE --by category --format png -o OUT.png"
            if of_torch
            else "; memreplay timeline FILE --format png -o OUT.png draws one"
        )
    )


def _endings() -> str:
    """The usual ending of each format."""
    return "known endings: " + ", ".join(form.endings[0] for form in FORMATS.values())


def table_of(output: str | None, tables: Sequence[str]) -> tuple[str, bool]:
    """The table that the name of a file means, and whether it says so: the one of these whose name
    is a word of it, else the allocations.

    Raises UsageError where several are, or a word speaks of a view.
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
            f"{output}: no table is called {view!r}: end the name in {usual} for the format {fmt},"
            f" or give --tables ({', '.join(tables)})"
        )
    return "allocations", False


def _words_in(output: str | None, words: Sequence[str]) -> list[str]:
    """Those of the words that the name of a file has."""
    there = re.split(r"[^a-z]+", os.path.basename(output or "").lower())
    return [word for word in words if word in there]
