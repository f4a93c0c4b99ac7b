"""`memreplay.fleet`, which reads a fleet from Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.selecting.answering import takes_choices
from memreplay.analysis.selecting.selection import FILTERS, Selection
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.source import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.fleets.result import FleetReport


@takes_choices(
    selection=Selection,
    options=Fleet,
    without=("by", "pool", "stream", "fold", *FILTERS),
)
def fleet(
    sources: str | Sequence[str],
    selection: Selection,
    options: Fleet,
    *,
    salvage: bool = False,
) -> FleetReport:
    """Read all ranks of a run: their peaks and spread, groups of similar ranks, and outliers.

    `sources`: folders, patterns (`run/**/*.pickle`, `s3://bucket/run/*.pkl`) and files. `workers`:
    a number of local processes (default: one per processor) or the address of a Dask scheduler,
    which doesn't change the result. `memory_per_worker`: limit for each local process.
    `total_memory`: cards to check each rank against. Both are numbers of bytes or text such as
    "80GiB". `base`: another fleet to compare with. `rank_pattern`: a regular expression whose only
    group is the rank in a file name. If ranks have several dumps, the newest is read, or the one
    named by `dump`; with "each", the report's `history` covers all dumps. `output`: a folder for
    the `tables` (comma-separated; default: all) of all ranks as one Parquet dataset. Ranks already
    in that folder aren't read again, and another fleet's ranks are only removed with `force`.
    `salvage` reads the intact part of truncated files.

    An unreadable file becomes a row with an error. Raises UsageError if no file is found or a rank
    occurs twice, and MissingExtraError without Dask.
    """
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    output = None if options.output is None else os.fspath(options.output)
    return run_fleet(
        replace(options, sources=named, output=output),
        Reading(device=selection.device, salvage=salvage),
        selection,
    )
