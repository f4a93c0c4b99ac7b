"""The options of `memreplay export`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from memreplay.analysis.selecting.parsing import WHEN_FORMS, parse_when
from memreplay.analysis.selecting.selection import Measures, Selection
from memreplay.commands.shared.output import Output
from memreplay.commands.shared.source import Reading
from memreplay.declared import Opt, Options
from memreplay.export.naming import FORMATS, Kind, parse_format
from memreplay.snapshot.model import When

MOST_POINTS = 1_000_000


class ExportOptions(Options, frozen=True):
    """Options for what to write, and how much of it."""

    format: Annotated[
        str | None,
        Opt(
            f"What to write: {', '.join(FORMATS)} (default: from OUT's extension; parquet for a"
            " folder or a name without one).",
            "FORMAT",
            parse=parse_format,
            among=lambda: tuple(FORMATS),
            group="Options",
            brief="What to write, whatever OUT's extension: pickle, json, ndjson, txt, …",
        ),
    ] = None
    tables: Annotated[
        str | None,
        Opt(
            "Which tables to write: events, allocations, stacks, frames, segments, blocks,"
            " annotations, usage. Default: all for a folder, or the one that a file's name"
            " contains; otherwise the whole snapshot for json and ndjson, and the allocations for"
            " other formats.",
            "NAME[,NAME...]",
            brief="Which tables to write: events, allocations, usage, …",
        ),
    ] = None
    flat: Annotated[
        bool,
        Opt(
            "Add function, file and line columns to the allocations, so that you don't need a"
            " join.",
            brief="Add function, file and line to the allocations.",
        ),
    ] = False
    measures: Measures = ()
    at: Annotated[
        When | None,
        Opt(
            f"The moment that a flame graph shows: {WHEN_FORMS}.",
            "WHEN",
            parse=parse_when,
            brief="The moment that a flame graph shows.",
        ),
    ] = None
    what: Annotated[
        Literal["live", "allocated"] | None,
        Opt(
            "For flame graphs: what is live at a moment (default), or everything allocated in the"
            " selected events.",
            rare=True,
        ),
    ] = None
    points: Annotated[
        int | None,
        Opt(
            "For traces: show the lowest, highest and last value in each of N equal parts of the"
            " time (default: 10000; 0: after every event).",
            "N",
            least=0,
            most=MOST_POINTS,
            rare=True,
        ),
    ] = None
    all_frames: Annotated[
        bool,
        Opt(
            "Write full stacks, with PyTorch, Python and C++ frames.",
            rare=True,
        ),
    ] = False
    strip_frames: Annotated[
        Literal["all", "plumbing"] | None,
        Opt(
            "For pickle and json: leave out all frames, or only those from PyTorch, Python and C++"
            " (plumbing).",
            brief="Leave frames out of a pickle or JSON file.",
        ),
    ] = None
    host: Annotated[
        bool,
        Opt(
            "For pickle and json: write only the pinned host memory, as device 0 of a snapshot, if"
            " it was recorded (record_pinned_host_memory=True).",
            rare=True,
        ),
    ] = False
    protocol: Annotated[
        Literal["2", "3", "4", "5"] | None,
        Opt(
            "The pickle protocol to write. Default: FILE's own, or 4 if FILE has 5, is JSON or is"
            " cut.",
            rare=True,
        ),
    ] = None


class ExportOutput(Output, frozen=True):
    """Options for the output, which is a file or a folder of tables."""

    output: Annotated[
        str | None,
        Opt(
            "Write to this file, atomically, or to a folder (OUT/) with one file per table."
            " Several snapshots become OUT/TABLE/rank=N/NAME.parquet, with columns for file and"
            " host. A pickle, json or txt file is compressed if its name ends in .gz, .zst, .xz or"
            " .bz2.",
            "OUT",
            short="-o",
            path="folder",
            group="Options",
            brief="Write to this file or folder (OUT/).",
        ),
    ] = None


class Export(Struct, frozen=True):
    """The options and the resulting format."""

    files: tuple[str, ...]
    fmt: str
    kind: Kind
    options: ExportOptions
    selection: Selection
    reading: Reading
    output: str | None
    force: bool
