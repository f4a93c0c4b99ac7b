"""What a page of a fleet knows besides its columns; viewer/src/core/fleet.ts reads it."""

from __future__ import annotations

from typing import Literal

from memreplay.export.page.coding import Coded
from memreplay.render.blocks import ReportBlock
from memreplay.snapshot.model import MeasureName
from memreplay.snapshot.record import Record


class PageShare(Record, frozen=True):
    """A part of what a rank holds at its peak."""

    text: int
    """Whose it is, as a place in `texts`: a category, or code."""
    bytes: int


class PageRank(Record, frozen=True, kw_only=True):
    """A rank: a file. Of one that was not read all that is known is why."""

    rank: int | None
    """Its number; None for a file that tells none."""
    file: str
    status: str
    """`ok`, or what it is instead, as in `memreplay.fleet/1`."""
    error: str
    """Why it was not read; empty if it was."""
    host: str | None
    group: int | None
    """The place of its group among `groups`."""
    typical: int | None
    """Of a rank that is like no other: the number of the one that it was compared with."""
    device: int | None = None
    """The one that stands for it: that with the highest peak. All below is of that one."""
    peak_bytes: int = 0
    reserved_bytes: int = 0
    """The peak of reserved memory."""
    headroom_bytes: int | None = None
    """What is left of the card then; None where the file does not tell its size."""
    step: int | None = None
    """The number of the step that the peak is in, from 1."""
    ooms: int = 0
    """Requests that failed."""
    leak_bytes_per_step: int | None = None
    trust: str = "exact"
    """How far its numbers can be trusted, in a word or two."""
    categories: tuple[PageShare, ...] = ()
    holders: tuple[PageShare, ...] = ()
    moments: int = 0
    """How many numbers of `curves` are its own."""


class PageAlike(Record, frozen=True):
    """Ranks that hold the same at their peaks."""

    name: str
    """`ranks 0 to 4, 6`."""
    differs: tuple[str, ...]
    """What sets them apart from the first group, a line each."""


class FleetPage(
    Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fleet_page/1"
):
    """All ranks of a run."""

    version: str
    """Of memreplay."""
    title: str
    headline: str
    """What is to be known of all ranks, in a line."""
    doubt: str
    """Why not all of it can be trusted; empty if it can."""
    measure: MeasureName
    noun: Literal["rank", "device"]
    """What a row is: a device where all are of one file."""
    curve_by: Literal["steps", "events"]
    """What there is a number for, in each rank: a step, or one of equal parts of its events."""
    texts: tuple[str, ...]
    """Names of categories and code."""
    ranks: tuple[PageRank, ...]
    groups: tuple[PageAlike, ...]
    """The largest first."""
    curves: Coded
    """The highest bytes in each moment of each rank, one rank behind the other."""
    bytes: int
    """How many bytes the columns have, once they are inflated."""
    report: tuple[ReportBlock, ...]
    """What `memreplay fleet` says."""
