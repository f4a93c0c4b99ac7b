"""What the name of an export's output says: the format, and which table."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from memreplay.errors import UsageError

# format: (module with `export`, the endings of names that mean it). The first is shown as the usual
# one.
FORMATS = {
    "parquet": ("memreplay.commands.export.tables", (".parquet", ".pq")),
    "arrow": ("memreplay.commands.export.tables", (".arrow", ".feather", ".ipc")),
    "csv": ("memreplay.commands.export.tables", (".csv",)),
    "ndjson": ("memreplay.commands.export.tables", (".ndjson", ".jsonl")),
    "json": ("memreplay.commands.export.tables", (".json",)),
    "perfetto": (
        "memreplay.commands.export.views",
        (".pftrace", ".perfetto-trace", ".perfetto_trace", ".perfetto"),
    ),
    "chrome": (
        "memreplay.commands.export.views",
        (
            ".trace.json",
            ".chrome.json",
            ".chrome-trace.json",
            ".chrome_trace.json",
            ".perfetto.json",
        ),
    ),
    "speedscope": ("memreplay.commands.export.views", (".speedscope.json", ".speedscope")),
    "collapsed": (
        "memreplay.commands.export.views",
        (".collapsed", ".folded", ".collapsed.txt", ".folded.txt"),
    ),
    "pprof": ("memreplay.commands.export.views", (".pb.gz", ".pb", ".pprof")),
    "memory-timeline": (
        "memreplay.commands.export.views",
        (
            ".timeline.json",
            ".memory-timeline.json",
            ".memory_timeline.json",
            ".raw.json",
        ),
    ),
    "html": ("memreplay.commands.export.page", (".html", ".htm")),
}
# memory-timeline, too, has a form of this ending, which has to be asked for by --format.
PAGES = FORMATS["html"][1]
TABLES = tuple(fmt for fmt, (module, _) in FORMATS.items() if module.endswith(".tables"))
VIEWS = tuple(fmt for fmt, (module, _) in FORMATS.items() if module.endswith(".views"))
_JSON = ("json", "chrome", "speedscope", "memory-timeline")
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
    if found in TABLES and output.lower().endswith(".gz"):
        raise UsageError(
            f"{output}: this ending means nothing; say what to write (--format): tables are not"
            " written as gzip, parquet is compressed as it is"
        )
    form_of = {"json": _JSON, "html": ("memory-timeline",)}.get(by_name or "", ())
    if by_name not in (None, found) and found not in form_of:
        usual = FORMATS[found][1][0]
        raise UsageError(
            f"{output}: this ending means {by_name}, and --format says {found}: end the name in"
            f" {usual}, or leave --format out"
        )
    return found


def _by_ending(output: str) -> str | None:
    """The format that the longest ending means; a name of nothing but an ending has it too."""
    name = "." + os.path.basename(output).lower()
    found = [
        (len(ending), fmt)
        for fmt, (_, endings) in FORMATS.items()
        for ending in endings
        if name.removesuffix(".gz").endswith(ending) or name.endswith(ending)
    ]
    return max(found)[1] if found else None


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
    return "known endings: " + ", ".join(endings[0] for _, endings in FORMATS.values())


def table_of(output: str | None, tables: Sequence[str]) -> tuple[str, bool]:
    """The table that the name of a file means, and whether it says so: the one of these whose name
    is a word of it, else the allocations.

    Raises UsageError where several are, or a word speaks of a view.
    """
    words = re.split(r"[^a-z]+", os.path.basename(output or "").lower())
    named = [table for table in tables if table in words]
    if len(named) > 1:
        raise UsageError(f"{output}: is it the table {' or '.join(named)}? Give --tables")
    if named:
        return named[0], True
    view = next((word for word in words if word in _OF_VIEWS), None)
    if view is not None and output not in (None, "-"):
        fmt = _OF_VIEWS[view]
        raise UsageError(
            f"{output}: no table is called {view!r}: end the name in {FORMATS[fmt][1][0]} for the"
            f" format {fmt}, or give --tables ({', '.join(tables)})"
        )
    return "allocations", False
