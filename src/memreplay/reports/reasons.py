"""Says in plain words why a device's numbers may be inexact, with what to do next time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from memreplay.analysis.trust import REMARKS
from memreplay.reports.document import Level, Note


class Reason(NamedTuple):
    """What is so, and how to get a better file; either may be empty."""

    what: str
    remedy: str


_RECORD = "torch.cuda.memory._record_memory_history"
_WITHOUT_GAPS = "record without a pause and without skip_actions"
_IN_PEACE = "dump while recording, with no allocation going on"

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
        "blocks were freed that were not live by then, so events are missing", _WITHOUT_GAPS
    ),
    "double_allocs": Reason(
        "addresses were allocated while they were still live, so frees are missing", _WITHOUT_GAPS
    ),
    "size_mismatches": Reason(
        "frees give another size than the allocation that they belong to, so events are missing",
        _WITHOUT_GAPS,
    ),
    "unmatched_requests": Reason(
        "frees were requested of blocks that are not live by then or never come free, so events are"
        " missing",
        _WITHOUT_GAPS,
    ),
    "start_impossible": Reason(
        "blocks that count as live from the start lie over each other, or in memory that was"
        " reserved later or given back before their end: allocations are missing, and the start is"
        " too high",
        _WITHOUT_GAPS,
    ),
    "measures_disagree": Reason(
        "at some event more is requested than active, or more than was reserved, which cannot be:"
        " events are missing",
        _WITHOUT_GAPS,
    ),
    "segments_disagree": Reason(
        "the trace does not end where the segments in the same file do", _IN_PEACE
    ),
    "segment_events_disagree": Reason(
        "segment events are missing: they do not lead to the segments in the file, or do not fit"
        " the allocations, so reserved bytes are estimated",
        "dump while recording, and record without skip_actions",
    ),
    "segment_events_unseen": Reason(
        "segments with nothing in them at the start were cached then, or came later without an"
        " event: the file does not tell which, so reserved bytes are estimated",
        "record without skip_actions",
    ),
    "blocks_misplaced": Reason(
        "some allocations lie where the trace leaves no free block, so events are missing, and"
        " active and allocated bytes are estimated",
        _WITHOUT_GAPS,
    ),
    "blocks_assumed": Reason(
        "some blocks that were there at the start may be larger than their rounded request, by up"
        " to 1 MiB each, so active and allocated bytes are estimated",
        "start recording earlier",
    ),
    "blocks_disagree": Reason(
        "the replay ends with other blocks than the file's segments have, so active and allocated"
        " bytes are estimated",
        _IN_PEACE,
    ),
    "snapshot_events_disagree": Reason(
        "a snapshot event in the trace gives another total of active bytes than the replay has"
        " there, so events are missing",
        _WITHOUT_GAPS,
    ),
    "skip_actions": Reason(
        "frees complete that nothing in the trace requested (that was not recorded, or just before"
        " the first event), so what the program held is estimated",
        "record without skip_actions",
    ),
    "pending_at_start": Reason(
        "the free of some blocks completes that nothing requested: they are taken to have waited"
        " for a stream when the recording began, so what the program held is estimated",
        "",
    ),
    "tail_race": Reason(
        "a few blocks changed during the dump, after the trace had been read out", _IN_PEACE
    ),
    "recording_stopped": Reason(
        "the process went on after the last event: recording had stopped before the dump",
        f"dump before {_RECORD}(enabled=None)",
    ),
    "recording_begun_late": Reason(
        "what was in use when the recording began counts, but mostly without the code that"
        " allocated it",
        f"to see that too, call {_RECORD}() first thing in the program",
    ),
    "pending_frees": Reason(
        "some freed blocks still wait for another stream at the end: they count as requested and"
        " active, no more as held and allocated",
        "",
    ),
    "synthetic_pool_events": Reason(
        "CUDA graph trees set a pool back to a checkpoint: those frees and allocations are"
        " PyTorch's own, and a spike among them is no peak of the program; peak --by pool shows"
        " pools apart",
        "",
    ),
    "no_requested_sizes": Reason(
        "blocks carry no requested sizes (an old PyTorch wrote them), so their rounded sizes stand"
        " in",
        "record with a newer PyTorch",
    ),
}


def reason_notes(
    reasons: tuple[str, ...],
    *,
    trusted: bool,
    said: frozenset[str] = frozenset(),
    instead: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Note, ...]:
    """A note a reason: a warning where it is a doubt, else for information.

    Of those in `said`, which the report states elsewhere, only the remedy remains. A remedy of
    several reasons stands with the first. `instead` has what a reason means to a report that is not
    of a peak.
    """
    notes = []
    advised = set()
    for name in reasons:
        level: Level = "note" if name in REMARKS else "warning"
        what, remedy = REASONS.get(name, Reason(name.replace("_", " "), ""))
        what = instead.get(name, what)
        if remedy in advised:
            remedy = ""
        advised.add(remedy)
        if name in said:
            notes.append(Note(f"next time, {remedy}", "note"))
        else:
            notes.append(Note(f"{what}; next time, {remedy}" if remedy else what, level))
    if not trusted and not reasons:
        notes.append(Note("these numbers may be inexact", "warning"))
    return tuple(notes)
