"""What a worker does that also writes a dataset. All that writing takes is loaded with this module,
so that it is there before a worker's memory is bounded, and counts as no file's."""

from __future__ import annotations

import pyarrow.parquet  # noqa: F401

from memreplay.commands.fleet.tasks import RankTask, read_rank
from memreplay.fleets.result import FleetRank


def read_and_write(task: RankTask) -> FleetRank:
    """As `read_rank`."""
    return read_rank(task)
