"""`memreplay.fleet`: a fleet read from Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.selecting.answering import takes_choices
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fleet.asked import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.source import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.fleets.result import FleetReport


@takes_choices(selection=Selection, options=Fleet)
def fleet(
    sources: str | Sequence[str],
    selection: Selection,
    options: Fleet,
    *,
    salvage: bool = False,
) -> FleetReport:
    """All ranks of a run: each one's peak, how they lie, which are alike, and which is odd and why.

    `sources` are folders, patterns (`run/**/*.pickle`, `s3://bucket/run/*.pkl`) and files. They are
    read on `workers` processes of this machine (one for each processor), or on the Dask cluster
    whose `scheduler` has this address; the result is the same. `memory_per_worker` is what one of
    these processes may take; `total_memory` are cards, on which each rank may fit or not, both in
    bytes or as text. `against` is another fleet, as a base. `rank_pattern` is an expression whose
    one group is the number of the rank in a file's name. Where ranks have several dumps, the newest
    of each is read, or the one that `dump` names; with "each" the report's `history` is of all.
    `output` is a folder for the `tables` (names with commas between; all by default) of all ranks
    as one Parquet dataset; what is there already is not read again, and ranks of another fleet are
    taken away with `force` alone. `salvage` reads the intact part of files that are cut off.

    A file that cannot be read is a row that says so. Raises UsageError where there is no file, and
    for ranks that are there twice; MissingExtraError without Dask.
    """
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    output = None if options.output is None else os.fspath(options.output)
    return run_fleet(
        replace(options, sources=named, output=output),
        Reading(device=selection.device, salvage=salvage),
        selection,
    )
