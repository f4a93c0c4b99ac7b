"""The selection, a record with the options common to all queries."""

# No `from __future__ import annotations`, because annotations declare options and are read on every
# start.
from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.selecting.parsing import (
    WHEN_FORMS,
    parse_measures,
    parse_pattern,
    parse_pool,
    parse_sizes,
    parse_stream,
    parse_ways,
    parse_when,
    way_names,
)
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.declared import Opt, Shared
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES, By, MeasureName, When
from memreplay.snapshot.record import Record, Rows

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule

OUTPUT = "Output"  # help section for options that say how much to show


TotalMemory = Annotated[
    int | None,
    Opt(
        "The card's total memory (such as 80GiB), including what CUDA itself takes. Default: read"
        " from the file.",
        "SIZE",
        parse=parse_size,
        least=1,
        brief="The card's total memory, such as 80GiB.",
    ),
]
"""A card's memory in bytes."""
TotalMemories = Annotated[
    tuple[int, ...],
    Opt(
        "Check whether the run fits on cards with this much memory, including what CUDA itself"
        " takes.",
        "SIZE[,SIZE...]",
        parse=parse_sizes,
        least=1,
        joined=True,
        brief="Check the fit on cards with 40GiB,24GiB.",
    ),
]
"""Several cards' memory in bytes."""

Measures = Annotated[
    tuple[MeasureName, ...],
    Opt(
        "Which bytes to show: requested, held, active, allocated or reserved, or several.",
        "NAME[,NAME]",
        flag="--measure",
        parse=parse_measures,
        among=lambda: MEASURES,
        joined=True,
    ),
]
"""Several measures."""

Cards = Annotated[
    tuple[int, ...],
    Opt(
        "Check whether the program fits on cards with this much memory (such as 80GiB,40GiB),"
        " including what CUDA itself takes.",
        "SIZE,...",
        flag="--total-memory",
        parse=parse_sizes,
        least=1,
        joined=True,
        brief="Check whether it fits on cards with 80GiB,40GiB.",
    ),
]
"""Several cards' memory in bytes."""

Settings = Annotated[
    tuple[str, ...],
    Opt(
        "Allocator settings to change, as in PYTORCH_CUDA_ALLOC_CONF. The others stay as recorded.",
        "KEY:VALUE,...",
        flag="--set",
        brief="Change settings, as in PYTORCH_CUDA_ALLOC_CONF.",
    ),
]
"""Allocator settings in PyTorch's syntax."""

Top = Annotated[int, Opt("Show the N largest; 0 for all.", "N", least=0, short="-n", group=OUTPUT)]
"""How many to show."""

At = Annotated[
    When | None,
    Opt(
        f"The moment: {WHEN_FORMS}.",
        "WHEN",
        parse=parse_when,
        brief="The moment: peak:2, oom, end, step:3, 1200, 1.5s, an annotation, …",
    ),
]
"""A moment of the recording."""


WithRules = Annotated[
    bool,
    Opt(
        "Also show what each category rule matched, and the --top largest stacks that no rule"
        " matched, so that you can write the next rule (see memreplay help categories).",
        flag="--rules",
        brief="Show what each category rule matched.",
    ),
]
"""Whether a report also shows what each category rule matched."""


WithHolders = Annotated[
    bool,
    Opt(
        "Also show which Python objects kept this memory alive. The file needs the notes of"
        " memreplay record --holders.",
        flag="--holders",
        brief="Show which Python objects kept this memory alive.",
    ),
]
"""Whether a report also shows who held a live set."""


ONLY = Shared("--only", "Use only allocations that match every KEY given")
"""Conditions on allocations other than their stacks."""


class Filters(Record, frozen=True):
    """Filters on allocations.

    Regular expressions are searched in `file:function`, `file:line` and `function file:line` of a
    stack's frames. Locations copied from a report match, too.
    """

    include: Annotated[
        tuple[str, ...],
        Opt(
            "Use only allocations with a frame whose function, file:line or file:function matches;"
            " may be repeated.",
            "REGEX",
            parse=parse_pattern,
            brief="Use only allocations with a matching frame.",
        ),
    ] = ()
    """`--include` patterns: at least one frame matches one of them."""
    exclude: Annotated[
        tuple[str, ...],
        Opt("Leave out allocations with a matching frame.", "REGEX", parse=parse_pattern),
    ] = ()
    """`--exclude`: no frame matches any of these."""
    min_bytes: Annotated[
        int,
        Opt("at least this large, such as 64K", "SIZE", parse=parse_size, least=0, of=ONLY),
    ] = 0
    """`--only min-bytes=SIZE`: at least this size, by the measure; 0 for any size."""
    only_live_at_end: Annotated[bool, Opt("never freed", of=ONLY, key="live-at-end")] = False
    """`--only live-at-end`: never freed."""
    only_carried_over: Annotated[
        bool, Opt("live before the first event", of=ONLY, key="carried-over")
    ] = False
    """`--only carried-over`: allocated before the first event."""
    no_carried_over: Annotated[
        bool, Opt("allocated during the recording", of=ONLY, key="no-carried-over")
    ] = False
    """`--only no-carried-over`: no allocations from before the first event."""

    def __bool__(self) -> bool:
        return self != Filters()


FILTERS = ("filters", *Filters.__struct_fields__)
"""Fields of a selection that a function without filters doesn't use."""
OF_ALLOCATIONS = ("measure", "pool", "stream", *FILTERS)
"""Fields of a selection that choose allocations and their bytes."""


class Selection(Record, frozen=True):
    """The measure, filters and grouping. Each query uses the options that apply to it.

    The range of events isn't part of it, but of the snapshot: see `memreplay.open`.
    """

    measure: Annotated[
        MeasureName,
        Opt(
            "Which bytes to count: requested (default), held, active, allocated or reserved."
            " See memreplay help numbers.",
            "NAME",
            shown="",
            brief="Count requested (default), held, active, allocated or reserved bytes.",
        ),
    ] = "requested"
    """The [measure](numbers.md#the-measures)."""
    by: Annotated[
        By | None,
        Opt(
            "Group by stack (default), file, module, category or another key, or by several"
            " (category,file). memreplay help numbers lists all keys.",
            "KEY[,KEY...]",
            parse=parse_ways,
            among=way_names,
            brief="Group by stack, file, module, category, …",
        ),
    ] = None
    """The key to group by; None for the default, which depends on the query and the measure."""
    top: Top = 20
    """Number of largest groups; 0 for all. The other groups are summed up."""
    device: int | None = None
    """Only this device; None for all devices that were read."""
    pool: Annotated[
        tuple[int, int] | None,
        Opt(
            "in this memory pool: default, or two numbers such as 0:1",
            "ID",
            parse=parse_pool,
            of=ONLY,
        ),
    ] = None
    """Only this memory pool."""
    stream: Annotated[int | None, Opt("of this stream", "N", parse=parse_stream, of=ONLY)] = None
    """Only this stream."""
    filters: Filters | None = None
    """Only allocations that pass these filters."""
    rules: "tuple[Rule, ...] | None" = None
    """Category rules; None for the default ones."""
    fold: bool = False
    """Whether to merge stacks that only differ in plumbing."""
    strict: Annotated[
        bool,
        Opt(
            "Check the numbers against everything in the file; exit with 1 if they aren't"
            " trustworthy.",
            group=OUTPUT,
            brief="Exit with 1 if the numbers aren't trustworthy.",
        ),
    ] = False
    """Whether to make all of a device's checks, as a summary does."""

    def __post_init__(self) -> None:
        """Raise UsageError if `rules` has the wrong type. Only Python callers can pass it."""
        if self.rules is not None and not isinstance(self.rules, tuple | Rows):
            raise UsageError(f"rules must be category rules, a tuple of Rule, not {self.rules!r}")
