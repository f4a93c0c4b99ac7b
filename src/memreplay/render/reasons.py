"""Says in plain words why a device's numbers may be inexact, with what to do next time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from memreplay.analysis.trust.trust import REMARKS
from memreplay.render.document import Level, Note
from memreplay.snapshot.backends import CUDA, spoken


class Reason(Struct, frozen=True):
    """What is so, and how to get a better file; either may be empty."""

    what: str
    remedy: str


_RECORD = "torch.cuda.memory._record_memory_history"
_WITHOUT_GAPS = "record without a pause and without skip_actions"
_IN_PEACE = "dump while recording is on and nothing is being allocated"

REASONS: dict[str, Reason] = {
    "truncated": Reason(
        "the file is cut off, and these are the numbers of its intact part: later events are"
        " missing, and blocks that were allocated after the cut count as live from the start",
        "dump again, and check that the disk has space and that nothing kills the process"
        " meanwhile",
    ),
    "no_events": Reason(
        "no events were recorded, so only the final state is known",
        f"call {_RECORD}() before the work of interest, and dump before switching it off",
    ),
    "no_allocations": Reason(
        "no allocation was recorded: the peak shown is the state at the end, and an earlier,"
        " higher one may be missing",
        f"call {_RECORD}() before the work of interest",
    ),
    "no_segments": Reason(
        "the file has no segments, so memory that was allocated before the recording and never"
        " freed in it is missing",
        "dump with torch.cuda.memory._dump_snapshot(), which writes both",
    ),
    "ring_overflow": Reason(
        "the recorder's ring buffer was full: these are the numbers of the last events, and an"
        " earlier, higher peak may be missing",
        f"raise max_entries in {_RECORD}(max_entries=...), or dump sooner",
    ),
    "ring_overflow_likely": Reason(
        "the recorder's ring buffer was probably full, or recording was restarted: these are the"
        " numbers of the last events, and an earlier, higher peak may be missing",
        f"raise max_entries in {_RECORD}(max_entries=...), or dump sooner; memreplay record notes"
        " how many events were dropped",
    ),
    "unmatched_frees": Reason(
        "blocks were freed that were not live, so events are missing", _WITHOUT_GAPS
    ),
    "double_allocs": Reason(
        "addresses were allocated while they were still live, so frees are missing", _WITHOUT_GAPS
    ),
    "size_mismatches": Reason(
        "some frees have a different size than their allocation, so events are missing",
        _WITHOUT_GAPS,
    ),
    "unmatched_requests": Reason(
        "frees were requested for blocks that were not live, or that never became free, so"
        " events are missing",
        _WITHOUT_GAPS,
    ),
    "start_impossible": Reason(
        "blocks that count as live from the start overlap each other, or lie in memory that was"
        " reserved later or given back too early: allocations are missing, and the start is too"
        " high",
        _WITHOUT_GAPS,
    ),
    "measures_disagree": Reason(
        "after some event more is requested than active, or more than is reserved, which is"
        " impossible: events are missing",
        _WITHOUT_GAPS,
    ),
    "segments_disagree": Reason(
        "the end of the trace does not match the segments in the same file", _IN_PEACE
    ),
    "segment_events_disagree": Reason(
        "segment events are missing: they do not lead to the segments in the file, or do not fit"
        " the allocations, so reserved bytes are estimated",
        "dump while recording, and record without skip_actions",
    ),
    "segment_events_unseen": Reason(
        "segments that were empty at the start were either cached then or reserved later without"
        " an event; the file does not say which, so reserved bytes are estimated",
        "record without skip_actions",
    ),
    "blocks_misplaced": Reason(
        "some allocations lie where the trace has no free block, so events are missing, and"
        " active and allocated bytes are estimated",
        _WITHOUT_GAPS,
    ),
    "blocks_assumed": Reason(
        "some blocks that were there at the start may be larger than their rounded request, by up"
        " to 1 MiB each, so active and allocated bytes are estimated",
        "start recording earlier",
    ),
    "blocks_disagree": Reason(
        "the blocks at the end of the replay differ from those in the file's segments, so active"
        " and allocated bytes are estimated",
        _IN_PEACE,
    ),
    "snapshot_events_disagree": Reason(
        "a snapshot event in the trace has a different total of active bytes than the replay, so"
        " events are missing",
        _WITHOUT_GAPS,
    ),
    "skip_actions": Reason(
        "some frees complete without a request in the trace (it was not recorded, or came just"
        " before the first event), so what the program held is estimated",
        "record without skip_actions",
    ),
    "pending_at_start": Reason(
        "some frees complete without a request: those blocks are taken to have been waiting for"
        " a stream when the recording began, so what the program held is estimated",
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
        "memory that was in use when the recording began counts, but mostly without the code"
        " that allocated it",
        f"to see that too, call {_RECORD}() first thing in the program",
    ),
    "pending_frees": Reason(
        "some freed blocks still wait for another stream at the end: they count as requested and"
        " active, but no longer as held and allocated",
        "",
    ),
    "synthetic_pool_events": Reason(
        "CUDA graph trees set a pool back to a checkpoint: those frees and allocations are"
        " PyTorch's own, and a spike among them is not a peak of the program; peak --by pool"
        " shows each pool",
        "",
    ),
    "notes_disagree": Reason(
        "what memreplay's recorder noted of the allocations is damaged or does not fit the events,"
        " so categories, phases and modules are guessed",
        "",
    ),
    "more_in_file": Reason(
        "the file holds other data beside the snapshot's pickle, which memreplay doesn't read",
        "",
    ),
    "notes_unreadable": Reason(
        "what stands under the key 'memreplay' isn't what memreplay's recorder writes, so it is"
        " left out: steps, categories and the card's size are those of a file without it",
        "",
    ),
    "recorder_failed": Reason(
        "memreplay's recorder could not look at some of the program's objects, so categories may"
        " be wrong or missing; memory is recorded all the same",
        "",
    ),
    "made_by_simulation": Reason(
        "no recording: memreplay simulate made this snapshot of one, and says that it is exact",
        "",
    ),
    "simulation_estimated": Reason(
        "no recording: memreplay simulate made this snapshot of one, as an estimate",
        "",
    ),
    "from_profiler": Reason(
        "a torch.profiler trace: it has the sizes of whole blocks, not what was requested, and says"
        " nothing of segments, streams and pools",
        "",
    ),
    "no_blocks": Reason(
        "a torch.profiler trace doesn't say in which blocks and segments its memory lay, so this"
        " measure can't be replayed from it",
        "dump with torch.cuda.memory._dump_snapshot()",
    ),
    "profiler_totals_disagree": Reason(
        "the sums of the trace's memory events are not the totals that it gives beside them: events"
        " are missing or out of order",
        "profile again, or dump with torch.cuda.memory._dump_snapshot()",
    ),
    "profiler_without_reserved": Reason(
        "the trace doesn't say what was reserved (Total Reserved is 0 throughout), so the 0 B shown"
        " for it mean nothing",
        "",
    ),
    "profiler_without_totals": Reason(
        "the trace doesn't say what was allocated in all, so memory that was allocated before it"
        " and never freed in it is missing",
        "profile with a newer PyTorch, or dump with torch.cuda.memory._dump_snapshot()",
    ),
    "fake_tensors": Reason(
        "an estimate under fake tensors (memreplay.estimate): no GPU ran it, and what some kernels"
        " take is missing",
        "",
    ),
    "no_allocator": Reason(
        "an estimate has tensors and no allocator, which rounds sizes, splits and keeps memory, so"
        " active, allocated and reserved bytes would be more",
        "use memreplay dryrun, which runs PyTorch's own allocator",
    ),
    "no_requested_sizes": Reason(
        "blocks carry no requested sizes (an old PyTorch wrote them), so their rounded sizes are"
        " used instead",
        "record with a newer PyTorch",
    ),
    "not_reproduced": Reason(
        "simulated with its own settings, the recording gives other segment events than it has:"
        " what was simulated is an estimate",
        "",
    ),
    "began_with_memory": Reason(
        "the recording begins with memory that was reserved before, and nobody knows what other"
        " settings would have made of it: what was simulated is an estimate",
        f"call {_RECORD}() first thing in the program",
    ),
    "placed_by_address": Reason(
        "where the driver put segments decided which of equal blocks served a request, and nobody"
        " knows where it would put others: what was simulated is an estimate",
        "",
    ),
    "request_succeeds": Reason(
        "a request that failed in the recording succeeds in the simulation: what the program would"
        " have done next is not in the file",
        "",
    ),
    "failures_unchanged": Reason(
        "requests that failed in the recording have their size: nobody knows whether they would be"
        " among the allocations that were changed",
        "",
    ),
    "came_back_late": Reason(
        "the file does not tell when checkpointed allocations would be made again: this takes the"
        " latest moment that there is, which needs the least memory",
        "",
    ),
    "streams_waited": Reason(
        "a request waited for all streams where it did not in the recording, or the other way"
        " round: when later frees would complete is not in the file",
        "",
    ),
    "card_inferred": Reason(
        "per_process_memory_fraction is a part of the card's whole memory, of which only what the"
        " driver has for the program is known: the simulation takes the part of that",
        "",
    ),
    "total_inferred": Reason(
        "memory was short in the recording, and the file does not tell how much there was: the"
        " simulation takes just less than what was asked for in vain (--total-memory says better)",
        "",
    ),
    "limit_inferred": Reason(
        "requests failed while the card had memory left: the simulation takes the most that was"
        " reserved for what the process may have",
        "",
    ),
    "start_too_large": Reason(
        "the recording begins with more reserved memory than this card has: what was simulated has"
        " it all the same, and nobody knows whether it would fit",
        f"call {_RECORD}() first thing in the program",
    ),
    "start_unplaced": Reason(
        "some memory that was in use when the recording began lies in no known segment",
        "dump while recording is on",
    ),
}


def reason_notes(
    reasons: tuple[str, ...],
    *,
    trusted: bool,
    backend: str = CUDA.name,
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
        reason = REASONS.get(name) or Reason(name.replace("_", " "), "")
        what, remedy = instead.get(name, reason.what), spoken(reason.remedy, backend)
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


class Judged(Protocol):
    """A part of a report with the verdict on it."""

    @property
    def trusted(self) -> bool: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...
    @property
    def backend(self) -> str: ...


def notes_of(
    found: Judged,
    *,
    said: frozenset[str] = frozenset(),
    instead: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Note, ...]:
    """The `reason_notes` of a part of a report."""
    return reason_notes(
        found.reasons, trusted=found.trusted, backend=found.backend, said=said, instead=instead
    )


def unknown_words(devices: Sequence[int]) -> str:
    """What there is to say of devices whose trace lies behind the place where a file is cut off."""
    which = f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}"
    return (
        f"nothing is known of {which}: the file is cut off before"
        f" {'their traces' if len(devices) > 1 else 'its trace'}, and how high memory went there"
        " isn't known; dump again"
    )
