"""What a worker does that also writes a dataset. All that writing takes is loaded with this module,
so that it is there before a worker's memory is bounded, and counts as no file's."""

from __future__ import annotations

import pyarrow.parquet  # noqa: F401

import memreplay.commands.fleet.row
import memreplay.export.tables.parquet  # noqa: F401
from memreplay.commands.fleet.result import FleetRank
from memreplay.commands.fleet.tasks import RankTask, read_rank


def read_and_write(task: RankTask) -> FleetRank:
    """As `read_rank`."""
    return read_rank(task)
