"""`memreplay.fleet`: a fleet read from Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.commands.fleet.asked import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.source import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from memreplay.commands.fleet.result import FleetReport


def fleet(
    sources: str | Sequence[str],
    selection: Selection | None = None,
    *,
    rank_pattern: str | None = None,
    dump: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    memory_per_worker: int | None = None,
    totals: Sequence[int] = (),
    against: str | Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    tables: str | None = None,
    force: bool = False,
    salvage: bool = False,
    **choices: Unpack[Choices],
) -> FleetReport:
    """All ranks of a run: each one's peak, how they lie, which are alike, and which is odd and why.

    `sources` are folders, patterns (`run/**/*.pickle`, `s3://bucket/run/*.pkl`) and files. They are
    read on `workers` processes of this machine (one for each processor), or on the Dask cluster
    whose `scheduler` has this address; the result is the same. `memory_per_worker` is what one of
    these processes may take, in bytes; `totals` are cards, in bytes, on which each rank may fit or
    not. `against` is another fleet, as a base. `rank_pattern` is an expression whose one group is
    the number of the rank in a file's name. Where ranks have several dumps, the newest of each is
    read, or the one that `dump` names; with "each" the report's `history` is of all. `output` is a
    folder for the `tables` (names with commas between; all by default) of all ranks as one Parquet
    dataset; what is there already is not read again, and ranks of another fleet are taken away with
    `force` alone. `salvage` reads the intact part of files that are cut off.

    A file that cannot be read is a row that says so. Raises UsageError where there is no file, and
    for ranks that are there twice; MissingExtraError without Dask.
    """
    named, base = ((one,) if isinstance(one, str) else tuple(one) for one in (sources, against))
    asked = selected(selection, choices)
    return run_fleet(
        Fleet(
            named,
            rank_pattern,
            Workers(workers, memory_per_worker, scheduler),
            tuple(totals),
            base,
            None if output is None else os.fspath(output),
            tables,
            force,
            dump,
        ),
        Reading(device=asked.device, salvage=salvage),
        asked,
    )
