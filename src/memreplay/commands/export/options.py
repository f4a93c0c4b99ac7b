"""The options of `memreplay export`, and all that it was asked for."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from memreplay.analysis.selecting.parsing import WHEN_FORMS, parse_when
from memreplay.analysis.selecting.selection import Measures, Selection
from memreplay.commands.export.names import FORMATS, Kind, parse_format
from memreplay.commands.shared.output import Output
from memreplay.commands.shared.source import Reading
from memreplay.declared import Opt, Options
from memreplay.snapshot.model import When

MOST_POINTS = 1_000_000


class ExportOptions(Options, frozen=True):
    """What to write, and how much of it."""

    format: Annotated[
        str | None,
        Opt(
            f"What to write: {', '.join(FORMATS)} (default: by the ending of OUT; parquet for a"
            " folder, or without an ending).",
            "FORMAT",
            parse=parse_format,
            among=lambda: tuple(FORMATS),
            group="Options",
            brief="What to write, whatever the ending: pickle, json, ndjson, txt, …",
        ),
    ] = None
    tables: Annotated[
        str | None,
        Opt(
            "Which tables: events, allocations, stacks, frames, segments, blocks, annotations,"
            " usage (default: all of them in a folder; in a file the one in its name; else json"
            " and ndjson hold the whole snapshot, and other formats the allocations).",
            "NAME[,NAME...]",
            brief="Which tables: events, allocations, usage, …",
        ),
    ] = None
    flat: Annotated[
        bool,
        Opt(
            "Add function, file and line as columns to the allocations, so that you need no join.",
            brief="Allocations with function, file and line.",
        ),
    ] = False
    partition: Annotated[
        Literal["rank"] | None,
        Opt(
            "Write several snapshots as one dataset: OUT/TABLE/rank=N/NAME.parquet, with file and"
            " host as columns.",
            brief="Write several snapshots as one dataset.",
        ),
    ] = None
    measures: Measures = ()
    at: Annotated[
        When | None,
        Opt(
            f"The moment of a flame graph: {WHEN_FORMS}.",
            "WHEN",
            parse=parse_when,
            brief="The moment of a flame graph.",
        ),
    ] = None
    what: Annotated[
        Literal["live", "allocated"] | None,
        Opt(
            "For flame graphs: what is live at a moment (default), or everything that was"
            " allocated in the events that are read.",
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
            "Write whole stacks, with PyTorch's, Python's and C++ frames.",
            rare=True,
        ),
    ] = False
    strip_frames: Annotated[
        Literal["all", "plumbing"] | None,
        Opt(
            "For pickle and json: leave out all frames, or those of PyTorch, Python and C++"
            " (plumbing).",
            brief="Leave frames out of a pickle or json.",
        ),
    ] = None
    protocol: Annotated[
        Literal["2", "3", "4", "5"] | None,
        Opt(
            "The pickle protocol to write (default: as FILE has it; 4 from 5, from JSON and of a"
            " part).",
            rare=True,
        ),
    ] = None


class ExportOutput(Output, frozen=True):
    """A file, or a folder of tables."""

    output: Annotated[
        str | None,
        Opt(
            "Write to this file, which is never left half-written, or to a folder (OUT/), one file"
            " per table. A pickle, json or txt is compressed if its name ends in .gz, .zst, .xz or"
            " .bz2.",
            "OUT",
            short="-o",
            path="folder",
            group="Options",
            brief="Write to this file, or this folder (OUT/).",
        ),
    ] = None


class Export(Struct, frozen=True):
    """What was asked for, and the format that this means."""

    files: tuple[str, ...]
    fmt: str
    kind: Kind
    options: ExportOptions
    selection: Selection
    reading: Reading
    output: str | None
    force: bool
