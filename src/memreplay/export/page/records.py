"""What a page knows of a snapshot besides its columns."""

from __future__ import annotations

from memreplay.export.page.coding import Coded
from memreplay.snapshot.record import Record


class LifeColumns(Record, frozen=True, kw_only=True):
    """The columns of `Lives`, as they are written."""

    begin: Coded
    """Differences to the one before."""
    life: Coded
    """`end` less `begin`."""
    lag: Coded
    """`end` less `let_go`."""
    requested: Coded
    slack: Coded
    """Bytes of the block less the requested ones."""
    stack: Coded
    category: Coded
    pool: Coded
    stream: Coded


class PageSpan(Record, frozen=True):
    """An annotation: a range of a program with a name."""

    name: str
    begin: int
    """How many events come before it."""
    end: int | None
    """How many until it ends; None if its end is not in the file."""
    start_us: int
    end_us: int | None
    """Its own times, since 1970-01-01 UTC."""


class PageDevice(Record, frozen=True, kw_only=True):
    """One device of a page."""

    device: int
    events: int
    """How many were read."""
    first_event: int
    """The number of the first of them."""
    lives: LifeColumns
    streams: tuple[str | None, ...]
    """What the numbers of `stream` stand for: numbers of streams may be as large as addresses."""
    pools: tuple[tuple[int, int] | None, ...]
    """What those of `pool` stand for."""
    reserved_start: int
    """Bytes that were reserved before the first event."""
    reserved_event: Coded
    """The events that changed it, differences."""
    reserved_bytes: Coded
    """What it was after each of them, differences."""
    time: Coded | None
    """Microseconds from the first event on, the latest up to each event, differences; None
    without times."""
    first_us: int | None
    """The time of the first event since 1970-01-01 UTC, in microseconds."""
    spans: tuple[PageSpan, ...]
    peaks: dict[str, int]
    """Of each measure the highest bytes, as the engine has them: the page's must be the same."""


class PageData(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.page/1"):
    """All that a page knows, but for the bytes of its columns."""

    file: str
    version: str
    """Of memreplay."""
    texts: tuple[str, ...]
    """Names of functions and files."""
    frame_function: Coded
    frame_file: Coded
    frame_line: Coded
    stack_frames: Coded
    """How many frames each stack has."""
    frames: Coded
    """The frames of all stacks, innermost first, one stack behind the other."""
    stack_code: Coded
    """Of each of these 1 for code of the user's or of a library, 0 for plumbing."""
    categories: tuple[str, ...]
    devices: tuple[PageDevice, ...]
    bytes: int
    """How many bytes the columns have, once they are inflated."""
