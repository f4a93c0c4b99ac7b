"""A worker's task that also writes a dataset.

This module imports everything that writing needs, so that it's loaded before memory is limited and
doesn't count towards a file's limit.
"""

from __future__ import annotations

import pyarrow.parquet  # noqa: F401

from memreplay.commands.fleet.tasks import RankTask, read_rank
from memreplay.fleets.result import FleetRank


def read_and_write(task: RankTask) -> FleetRank:
    """Like `read_rank`, but also write the rank's tables."""
    return read_rank(task)
