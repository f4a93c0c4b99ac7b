"""The records in a fleet's page, which viewer/src/core/fleet.ts reads."""

from __future__ import annotations

from typing import Literal

from memreplay.export.page.coding import Coded
from memreplay.render.blocks import ReportBlock
from memreplay.snapshot.model import MeasureName
from memreplay.snapshot.record import Record


class PageShare(Record, frozen=True):
    """A part of a rank's peak."""

    text: int
    """Index in `texts` of a category or call site."""
    bytes: int


class PageRank(Record, frozen=True, kw_only=True):
    """A rank, that is, a file. If the file couldn't be read, the rank only has an error."""

    rank: int | None
    """The rank's number; None if the file doesn't say."""
    file: str
    status: str
    """`ok` or the kind of failure, as in `memreplay.fleet/1`."""
    error: str | None
    """Why the file couldn't be read; None if it was."""
    host: str | None
    group: int | None
    """Index of the rank's group in `groups`."""
    typical: int | None
    """For an outlier: the number of the rank it was compared with."""
    page: str | None = None
    """The URL of the rank's own page; None if there was none when this page was written."""
    device: int | None = None
    """The device with the highest peak. The fields below describe it."""
    peak_bytes: int = 0
    reserved_bytes: int | None = None
    """Peak of reserved memory; None if the file doesn't say."""
    headroom_bytes: int | None = None
    """Bytes left on the card at the peak of reserved memory; None if that peak or the card's size
    is unknown.
    """
    step: int | None = None
    """Number of the step with the peak, from 1."""
    ooms: int = 0
    """Number of failed requests."""
    leak_bytes_per_step: int | None = None
    trust: str = "exact"
    """How far the rank's numbers can be trusted."""
    categories: tuple[PageShare, ...] = ()
    holders: tuple[PageShare, ...] = ()
    moments: int = 0
    """Number of values in `curves` that belong to this rank."""


class PageAlike(Record, frozen=True):
    """Ranks whose memory is the same at their peaks."""

    name: str
    """The group's name, e.g. `ranks 0 to 4, 6`."""
    differs: tuple[str, ...]
    """How these ranks differ from the first group, one line per difference."""


class FleetPage(
    Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fleet_page/1"
):
    """All ranks of a run."""

    version: str
    """memreplay's version."""
    title: str
    headline: str
    """The summary line."""
    doubt: str
    """Why some numbers aren't trustworthy, or ""."""
    measure: MeasureName
    noun: Literal["rank", "device"]
    """What a row stands for: a rank, or a device if one file has all devices."""
    curve_by: Literal["steps", "events"]
    """What each point of a curve stands for: a step, or one of several equal parts of the events.
    """
    texts: tuple[str, ...]
    """Names of categories and call sites."""
    ranks: tuple[PageRank, ...]
    groups: tuple[PageAlike, ...]
    """Groups of similar ranks, largest group first."""
    curves: Coded
    """Each rank's maximum bytes at each of its moments, rank after rank."""
    bytes: int
    """Size of the inflated columns."""
    report: tuple[ReportBlock, ...]
    """The output of `memreplay fleet`."""
