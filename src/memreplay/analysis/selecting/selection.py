"""What is asked of a snapshot, whatever the question: one record, passed whole."""

# Annotations declare options here, which each start reads: they are no text to be evaluated.
from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.selecting.parsing import (
    WHEN_FORMS,
    parse_least_size,
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
from memreplay.declared import Opt
from memreplay.snapshot.model import MEASURES, By, MeasureName, When
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule

OUTPUT = "Output"  # a heading of the help, below which the options are that say how much is shown


TotalMemory = Annotated[
    int | None,
    Opt(
        "The card's memory (80GiB), of which CUDA itself takes some; by default what the file"
        " says.",
        "SIZE",
        parse=parse_least_size,
        brief="The card's memory, as 80GiB.",
    ),
]
"""A card's memory in bytes."""
TotalMemories = Annotated[
    tuple[int, ...],
    Opt(
        "The memory of each card, of which CUDA itself takes some; says whether it fits.",
        "SIZE[,SIZE...]",
        parse=parse_sizes,
        joined=True,
        brief="Say whether it fits on such cards: 40GiB,24GiB.",
    ),
]
"""Cards by their memory in bytes."""

Measures = Annotated[
    tuple[MeasureName, ...],
    Opt(
        "Which bytes: requested, held, active, allocated or reserved, or several.",
        "NAME[,NAME]",
        flag="--measure",
        parse=parse_measures,
        among=lambda: MEASURES,
        joined=True,
    ),
]
"""Several kinds of bytes."""

Cards = Annotated[
    tuple[int, ...],
    Opt(
        "The memory of each card (80GiB,40GiB), of which CUDA itself takes some; says whether the"
        " program fits.",
        "SIZE,...",
        flag="--total-memory",
        parse=parse_sizes,
        joined=True,
        brief="The memory of each card, as 80GiB,40GiB.",
    ),
]
"""The memory of several cards in bytes."""

Settings = Annotated[
    tuple[str, ...],
    Opt(
        "Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF; the others stay as recorded.",
        "KEY:VALUE,...",
        flag="--set",
        brief="Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF.",
    ),
]
"""Allocator settings as PyTorch spells them."""

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
        "Also show what each rule of categories caught, and the largest stacks that no rule did, as"
        " many as --top says: to write the next rule (memreplay help categories).",
        flag="--rules",
        brief="Show what each rule of categories caught.",
    ),
]
"""Whether a report of a live set also has what the rules of categories caught of it."""


class Filters(Record, frozen=True):
    """Which allocations alone count. Regular expressions are searched in `file:function`,
    `file:line` and `function file:line` of a stack's frames; a place as a report shows it, cut
    short or not, is found as well."""

    include: Annotated[
        tuple[str, ...],
        Opt(
            "Only allocations with a frame whose function, file:line or file:function matches;"
            " may be repeated.",
            "REGEX",
            parse=parse_pattern,
            brief="Only allocations with a frame that matches.",
        ),
    ] = ()
    """`--include`: any of these is found in a frame."""
    exclude: Annotated[
        tuple[str, ...],
        Opt("Leave out allocations with such a frame.", "REGEX", parse=parse_pattern),
    ] = ()
    """`--exclude`: none of these is found in a frame."""
    min_bytes: Annotated[
        int,
        Opt(
            "Only allocations of at least this size (64K, 1MiB).",
            "SIZE",
            parse=parse_size,
            rare=True,
            brief="Only allocations of at least this size.",
        ),
    ] = 0
    """`--min-bytes`: of at least this size, by the measure; 0 for any."""
    only_live_at_end: Annotated[bool, Opt("Only allocations that are never freed.", rare=True)] = (
        False
    )
    """`--only-live-at-end`: never freed."""
    only_carried_over: Annotated[
        bool,
        Opt("Only what was live before the first event.", flag="--only-carried-over", rare=True),
    ] = False
    """`--only-carried-over`: carried over, allocated before the first event."""
    no_carried_over: Annotated[
        bool,
        Opt("Leave out what was live before the first event.", flag="--no-carried-over", rare=True),
    ] = False
    """`--no-carried-over`: not carried over."""

    def __bool__(self) -> bool:
        return self != Filters()


class Selection(Record, frozen=True):
    """Which bytes, of what, in which groups; a question takes from it what concerns it.

    Which events were read is the snapshot's own: `memreplay.open` has a range.
    """

    measure: Annotated[
        MeasureName,
        Opt(
            "Which bytes: requested (default), held, active, allocated or reserved; memreplay help"
            " numbers tells them apart.",
            "NAME",
            shown="",
            brief="requested (default), held, active, allocated or reserved.",
        ),
    ] = "requested"
    """Which [bytes](numbers.md#the-measures)."""
    by: Annotated[
        By | None,
        Opt(
            "Group by stack (default), file, module, category, …, or several: category,file;"
            " memreplay help numbers lists all.",
            "WAY[,WAY...]",
            parse=parse_ways,
            among=way_names,
            brief="Group by stack, file, module, category, … or several.",
        ),
    ] = None
    """How to group; None for the way that suits the question and the measure."""
    top: Annotated[
        int, Opt("Show the N largest; 0 for all.", "N", least=0, short="-n", group=OUTPUT)
    ] = 20
    """How many groups, the largest; 0 for all. What is cut is added up."""
    device: int | None = None
    """Of this device alone; None for all that were read."""
    pool: Annotated[
        tuple[int, int] | None,
        Opt(
            "Only this memory pool: two numbers (0:1), or default.",
            "ID",
            parse=parse_pool,
            rare=True,
        ),
    ] = None
    """Of this memory pool alone."""
    stream: Annotated[
        int | None, Opt("Only this stream's allocations.", "N", parse=parse_stream, rare=True)
    ] = None
    """Of this stream alone."""
    filters: Filters | None = None
    """Of the allocations that pass alone."""
    rules: "tuple[Rule, ...] | None" = None
    """The rules of categories; None for the default ones."""
    fold: bool = False
    """Whether stacks that differ in plumbing alone are one group."""
    strict: Annotated[
        bool,
        Opt(
            "Check the numbers against everything in the file; exit with 1 if they cannot be"
            " trusted.",
            group=OUTPUT,
            brief="Exit with 1 if the numbers can't be trusted.",
        ),
    ] = False
    """Whether a verdict holds everything against a device that a summary does."""
