"""What is asked of a fleet: which files, of which ranks, who reads them, and what is written."""

from __future__ import annotations

from typing import Annotated

from memreplay.analysis.selecting.selection import TotalMemories
from memreplay.commands.shared.dumps import Dump
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.output import Force
from memreplay.declared import Opt, Options


class Fleet(Options, frozen=True):
    """Folders, patterns and files; on processes of this machine, or on a cluster."""

    sources: tuple[str, ...] = ()
    base: Annotated[
        tuple[str, ...],
        Opt(
            "Compare each rank with the same one of this other fleet, as a base. Repeat for several"
            " sources.",
            "SOURCE",
            brief="Compare with the same ranks of this other fleet.",
        ),
    ] = ()
    total_memory: TotalMemories = ()
    rank_pattern: Annotated[
        str | None,
        Opt(
            "Find each file's rank in its name by this expression: its one group is the number.",
            "REGEX",
            brief="Find each file's rank in its name by this.",
        ),
    ] = None
    dump: Dump = None
    output: Annotated[
        str | None,
        Opt(
            "Write the tables of all ranks as one Parquet dataset, too:"
            " DIR/TABLE/rank=N/NAME.parquet. Run again it reads only what is new. Needs pyarrow"
            " (the extra 'parquet').",
            "DIR",
            short="-o",
            path="folder",
            brief="Write all ranks' tables as a Parquet dataset, too.",
        ),
    ] = None
    tables: Annotated[
        str | None, Opt("Which tables (default: all of them).", "NAME[,NAME...]", rare=True)
    ] = None
    force: Force = False
    readers: Workers = Workers()
