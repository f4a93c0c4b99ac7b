"""Says in plain words why a device's numbers may be inexact, with what to do next time."""

from __future__ import annotations

from typing import NamedTuple

from memreplay.reports.document import Level, Note


class Reason(NamedTuple):
    """What is so, and how to get a better file; either may be empty."""

    what: str
    remedy: str


_RECORD = "torch.cuda.memory._record_memory_history"

REASONS: dict[str, Reason] = {
    "truncated": Reason(
        "the file is cut off, and this is what was whole: what came after is not in these numbers,"
        " and blocks that were allocated after the cut count as live from the start",
        "dump again, and check the disk's space and that the process is not killed meanwhile",
    ),
    "no_events": Reason(
        "no events were recorded, so only the final state is known",
        f"call {_RECORD}() before the work of interest, and dump before switching it off",
    ),
    "no_allocations": Reason(
        "no allocation was recorded: the peak shown is the state at the end, and an earlier one"
        " would not show",
        f"call {_RECORD}() before the work of interest",
    ),
    "no_segments": Reason(
        "the file has no segments, so memory that was allocated before the recording and never"
        " freed in it is missing",
        "dump with torch.cuda.memory._dump_snapshot(), which writes both",
    ),
    "ring_overflow": Reason(
        "the recorder's ring buffer was full: what is left is exact, but an earlier and higher peak"
        " would not show",
        f"raise max_entries in {_RECORD}(max_entries=...), or dump sooner",
    ),
    "unmatched_frees": Reason(
        "blocks were freed that were not live by then, so events are missing",
        "record without a pause and without skip_actions",
    ),
    "double_allocs": Reason(
        "addresses were allocated while they were still live, so frees are missing",
        "record without a pause and without skip_actions",
    ),
    "size_mismatches": Reason(
        "frees give another size than the allocation that they belong to, so events are missing",
        "record without a pause and without skip_actions",
    ),
    "segments_disagree": Reason(
        "the trace does not end where the segments in the same file do",
        f"dump while recording, before {_RECORD}(enabled=None), with no allocation going on",
    ),
    "no_requested_sizes": Reason(
        "blocks carry no requested sizes (an old PyTorch wrote them), so their rounded sizes stand"
        " in",
        "record with a newer PyTorch",
    ),
}


def reason_notes(
    reasons: tuple[str, ...], *, trusted: bool, said: frozenset[str] = frozenset()
) -> tuple[Note, ...]:
    """A note a reason: a warning where the numbers are not trusted, else for information.

    Of those in `said`, which the report states elsewhere, only the remedy remains.
    """
    level: Level = "note" if trusted else "warning"
    notes = []
    for name in reasons:
        what, remedy = REASONS.get(name, Reason(name.replace("_", " "), ""))
        if name in said:
            notes.append(Note(f"next time, {remedy}", "note"))
        else:
            notes.append(Note(f"{what}; next time, {remedy}" if remedy else what, level))
    if not trusted and not reasons:
        notes.append(Note("these numbers may be inexact", "warning"))
    return tuple(notes)
