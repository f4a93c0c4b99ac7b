"""Says in plain words why a device's numbers may be inexact, with what to do next time."""

from __future__ import annotations

from typing import NamedTuple

from memreplay.analysis.trust import REMARKS
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
    "segment_events_disagree": Reason(
        "the segments at the end are not those that the trace's segment events leave, so reserved"
        " memory is estimated",
        f"dump while recording, before {_RECORD}(enabled=None), and without skip_actions",
    ),
    "blocks_misplaced": Reason(
        "allocations do not fit the free blocks that the trace leaves, so events are missing and"
        " sizes of blocks are estimated",
        "record without a pause and without skip_actions",
    ),
    "blocks_assumed": Reason(
        "some blocks that were there before the recording may be larger than shown, by up to 1 MiB"
        " each, which the allocator does not split off: active and allocated bytes are estimated",
        "start recording earlier",
    ),
    "blocks_disagree": Reason(
        "the blocks at the end are not those in the segments of the file, so sizes of blocks are"
        " estimated",
        f"dump while recording, before {_RECORD}(enabled=None), with no allocation going on",
    ),
    "snapshot_events_disagree": Reason(
        "a snapshot event in the trace names another total of active bytes than the replay has"
        " there",
        "record without a pause and without skip_actions",
    ),
    "skip_actions": Reason(
        "frees complete without having been requested, so what the program held is estimated",
        "record without skip_actions",
    ),
    "tail_race": Reason(
        "a few blocks changed between the reading of the trace and that of the segments",
        "dump with no allocation going on",
    ),
    "recording_stopped": Reason(
        "the process went on after the last event: recording had stopped before the dump",
        f"dump before {_RECORD}(enabled=None)",
    ),
    "recording_begun_late": Reason(
        "memory was in use when the recording began: it counts, but who allocated it is mostly not"
        " known",
        f"call {_RECORD}() first thing in the program",
    ),
    "pending_frees": Reason(
        "blocks were freed that another stream still uses: they count as requested and active, not"
        " as held and allocated",
        "",
    ),
    "synthetic_pool_events": Reason(
        "CUDA graph trees set a private pool back to a checkpoint: these frees and allocations are"
        " PyTorch's own, and spikes among them are no peaks of the program",
        "look at pools apart (--by pool)",
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
    """A note a reason: a warning where it is a doubt, else for information.

    Of those in `said`, which the report states elsewhere, only the remedy remains.
    """
    notes = []
    for name in reasons:
        level: Level = "note" if name in REMARKS else "warning"
        what, remedy = REASONS.get(name, Reason(name.replace("_", " "), ""))
        if name in said:
            notes.append(Note(f"next time, {remedy}", "note"))
        else:
            notes.append(Note(f"{what}; next time, {remedy}" if remedy else what, level))
    if not trusted and not reasons:
        notes.append(Note("these numbers may be inexact", "warning"))
    return tuple(notes)
