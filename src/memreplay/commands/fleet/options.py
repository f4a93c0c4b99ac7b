"""Options of a fleet: files, ranks, workers and output."""

from __future__ import annotations

from typing import Annotated

from memreplay.analysis.selecting.selection import TotalMemories
from memreplay.commands.shared.dumps import Dump
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.output import Force
from memreplay.declared import Opt, Options


class Fleet(Options, frozen=True):
    """Options for a fleet's files, and for reading them with local processes or a cluster."""

    sources: tuple[str, ...] = ()
    base: Annotated[
        tuple[str, ...],
        Opt(
            "Compare each rank with the same rank of this other run. Repeat for several sources.",
            "SOURCE",
            brief="Compare with the same ranks of another run.",
        ),
    ] = ()
    total_memory: TotalMemories = ()
    rank_pattern: Annotated[
        str | None,
        Opt(
            "Find each file's rank in its name with this expression, which has one group: the"
            " number.",
            "REGEX",
            brief="Find each file's rank in its name with this.",
        ),
    ] = None
    dump: Dump = None
    output: Annotated[
        str | None,
        Opt(
            "Also write the tables of all ranks as one Parquet dataset:"
            " DIR/TABLE/rank=N/NAME.parquet. A later run reads only new files. Needs pyarrow (the"
            " 'parquet' extra).",
            "DIR",
            short="-o",
            path="folder",
            brief="Also write a Parquet dataset of all ranks.",
        ),
    ] = None
    tables: Annotated[
        str | None, Opt("Tables to write (default: all).", "NAME[,NAME...]", rare=True)
    ] = None
    force: Force = False
    readers: Workers = Workers()
