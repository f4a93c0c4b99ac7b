"""Explain why a device's numbers may be inexact, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from memreplay.analysis.trust.trust import EVENTS_LOST_BEFORE, REMARKS
from memreplay.render.document import Level, Note
from memreplay.snapshot.backends import CUDA, for_backend


class Reason(Struct, frozen=True):
    """What is wrong with a number, and how to get a better file. Either text may be empty."""

    what: str
    remedy: str


_RECORD = "torch.cuda.memory._record_memory_history"
_WITHOUT_GAPS = "record without a pause and without skip_actions"
_DUMP_ALL = "dump with torch.cuda.memory._dump_snapshot() while recording is on"
_IN_PEACE = "dump while recording is on and nothing is being allocated"

REASONS: dict[str, Reason] = {
    "truncated": Reason(
        "the file is cut off, so these numbers cover only its intact part: later events are"
        " missing, and blocks allocated after the cut count as live from the start",
        "dump again, and check that the disk has space and that nothing kills the process while it"
        " dumps",
    ),
    "no_events": Reason(
        "no events were recorded, so only the final state is known",
        f"call {_RECORD}() before the work of interest, and dump before switching it off",
    ),
    "segments_only": Reason(
        "the file is a bare list of segments, as torch.cuda.memory_snapshot() returns, which never"
        " has events",
        _DUMP_ALL,
    ),
    "no_allocations": Reason(
        "no allocation was recorded: a peak before this state may be missing",
        f"call {_RECORD}() before the work of interest",
    ),
    "no_segments": Reason(
        "the file has no segments, so memory that was allocated before the recording and never"
        " freed in it is missing",
        "dump with torch.cuda.memory._dump_snapshot(), which writes both",
    ),
    "ring_overflow": Reason(
        "the recorder's ring buffer was full: these numbers cover only the last events, and an"
        " earlier, higher peak may be missing",
        f"raise max_entries in {_RECORD}(max_entries=...), or dump sooner",
    ),
    "ring_overflow_likely": Reason(
        "the recorder's ring buffer was probably full, or recording was restarted: these numbers"
        " cover only the last events, and an earlier, higher peak may be missing",
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
        "carried-over blocks overlap each other, or lie in memory that was reserved later or"
        " released too early, so allocations are missing and the bytes at the start are too high",
        _WITHOUT_GAPS,
    ),
    "measures_disagree": Reason(
        "after some event, requested bytes exceed active or reserved bytes, which is impossible:"
        " events are missing",
        _WITHOUT_GAPS,
    ),
    "segments_disagree": Reason(
        "the end of the trace doesn't match the segments in the file", _IN_PEACE
    ),
    "segment_events_disagree": Reason(
        "segment events are missing: they don't lead to the segments in the file or don't fit the"
        " allocations, so reserved bytes are estimated",
        "dump while recording, and record without skip_actions",
    ),
    "segment_events_unseen": Reason(
        "segments that were empty at the start were either cached then or reserved later without"
        " an event; the file doesn't say which, so reserved bytes are estimated",
        "record without skip_actions",
    ),
    "blocks_misplaced": Reason(
        "some allocations lie where the replay has no free block: events are missing, or they come"
        " from another allocator, so active and allocated bytes are estimated",
        _WITHOUT_GAPS,
    ),
    "blocks_assumed": Reason(
        "some carried-over blocks may be up to 1 MiB larger than their rounded request, so active"
        " and allocated bytes are estimated",
        "start recording earlier",
    ),
    "blocks_disagree": Reason(
        "the blocks at the end of the replay differ from those in the file, so active and"
        " allocated bytes are estimated",
        _IN_PEACE,
    ),
    "snapshot_events_disagree": Reason(
        "a snapshot event has a different total of active bytes than the replay, so events are"
        " missing",
        _WITHOUT_GAPS,
    ),
    "skip_actions": Reason(
        "some frees have no request in the trace, because it was skipped or came just before the"
        " first event, so held and allocated bytes are estimated",
        "record without skip_actions",
    ),
    "pending_at_start": Reason(
        "some frees have no request in the trace; those blocks are assumed to have been waiting for"
        " a stream when recording began, so held and allocated bytes are estimated",
        "",
    ),
    "tail_race": Reason(
        "a few blocks changed during the dump, after the trace had been read", _IN_PEACE
    ),
    "completions_skipped": Reason(
        "frees were requested, but none completes in the trace, so requested and active bytes are"
        " too high",
        "record without skip_actions",
    ),
    "recording_stopped": Reason(
        "the process continued after the last event: recording had stopped before the dump",
        f"dump before {_RECORD}(enabled=None)",
    ),
    "recording_begun_late": Reason(
        "memory allocated before the recording is counted, but most of it has no stack",
        f"call {_RECORD}() first thing in the program",
    ),
    "pending_frees": Reason(
        "some freed blocks still wait for another stream at the end: they count as requested and"
        " active, but no longer as held and allocated",
        "",
    ),
    "synthetic_pool_events": Reason(
        "CUDA graph trees reset a pool to a checkpoint: those frees and allocations are PyTorch's"
        " own, and a spike among them isn't a peak of the program; peak --by pool shows each pool",
        "",
    ),
    "notes_disagree": Reason(
        "the notes of memreplay's recorder on allocations are damaged or don't fit the events, so"
        " categories, phases and modules are guessed",
        "",
    ),
    "more_in_file": Reason(
        "the file holds more data after the snapshot's pickle, which memreplay doesn't read",
        "",
    ),
    "notes_unreadable": Reason(
        "the notes under the key 'memreplay' aren't in the recorder's format, so they are ignored:"
        " steps, categories and the card's size come from the trace only",
        "",
    ),
    "recorder_failed": Reason(
        "memreplay's recorder couldn't inspect some of the program's objects, so categories may be"
        " wrong or missing; the memory numbers aren't affected",
        "",
    ),
    "made_by_simulation": Reason(
        "not a recording: memreplay simulate made this snapshot, and reported it as exact",
        "",
    ),
    "simulation_estimated": Reason(
        "not a recording: memreplay simulate made this snapshot as an estimate",
        "",
    ),
    "from_profiler": Reason(
        "a torch.profiler trace: it has the sizes of whole blocks instead of requested sizes, and"
        " no segments, streams or pools",
        "",
    ),
    "no_blocks": Reason(
        "a torch.profiler trace has no blocks and segments, so this measure can't be replayed",
        "dump with torch.cuda.memory._dump_snapshot()",
    ),
    "profiler_totals_disagree": Reason(
        "the trace's memory events don't add up to its totals: events are missing or out of order",
        "profile again, or dump with torch.cuda.memory._dump_snapshot()",
    ),
    "profiler_without_reserved": Reason(
        "the trace doesn't say what was reserved (Total Reserved is 0 throughout)",
        "",
    ),
    "profiler_without_totals": Reason(
        "the trace has no running totals, so memory that was allocated before it and never freed in"
        " it is missing",
        "profile with a newer PyTorch, or dump with torch.cuda.memory._dump_snapshot()",
    ),
    "fake_tensors": Reason(
        "an estimate with fake tensors (memreplay.estimate): nothing ran on a GPU, and the"
        " workspace of some kernels is missing",
        "",
    ),
    "no_allocator": Reason(
        "an estimate has tensors but no allocator, so it lacks rounding, splitting and caching:"
        " real active, allocated and reserved bytes are higher",
        "use memreplay dryrun, which runs PyTorch's own allocator",
    ),
    "no_requested_sizes": Reason(
        "blocks have no requested sizes (an old PyTorch wrote them), so their rounded sizes are"
        " used instead",
        "record with a newer PyTorch",
    ),
    "not_reproduced": Reason(
        "with the recorded settings, the simulation doesn't reproduce the recorded segment events,"
        " so its results are estimates",
        "",
    ),
    "began_with_memory": Reason(
        "memory was already reserved when recording began, and its layout under other settings"
        " can't be known, so the result is an estimate",
        f"call {_RECORD}() first thing in the program",
    ),
    "placed_by_address": Reason(
        "PyTorch chose among equally good blocks by their address, and the addresses of other"
        " segments can't be known, so the result is an estimate",
        "",
    ),
    "request_succeeds": Reason(
        "a request that failed in the recording succeeds in the simulation; what the program would"
        " have done next can't be known",
        "",
    ),
    "failures_unchanged": Reason(
        "failed requests keep their recorded size, because it can't be known whether the change"
        " would affect them",
        "",
    ),
    "came_back_late": Reason(
        "the file doesn't say when checkpointed allocations would be recomputed: the simulation"
        " assumes the latest possible moment, which needs the least memory",
        "",
    ),
    "streams_waited": Reason(
        "a request waited for all streams although it didn't in the recording, or vice versa; when"
        " later frees would complete can't be known",
        "",
    ),
    "card_inferred": Reason(
        "per_process_memory_fraction is a share of the whole card, but only the driver's limit for"
        " this program is known, so the simulation applies the share to that",
        "",
    ),
    "total_inferred": Reason(
        "memory was short in the recording, and the file doesn't say how much the card had: the"
        " simulation assumes just less than the failed requests needed (--total-memory sets it)",
        "",
    ),
    "limit_inferred": Reason(
        "requests failed while the card had memory left: the simulation assumes that the process's"
        " limit was the highest reserved bytes",
        "",
    ),
    "start_too_large": Reason(
        "the recording begins with more reserved memory than this card has; the simulation keeps"
        " it, and whether it would fit can't be known",
        f"call {_RECORD}() first thing in the program",
    ),
    "start_unplaced": Reason(
        "some carried-over memory lies in no known segment",
        "dump while recording is on",
    ),
}


# Recording was on, but the buffer holds only one event.
KEPT_ONE = (
    f'call {_RECORD}(max_entries=100000): enabled="state" and enabled=True keep only the last event'
)


def remedy_of(name: str, reasons: Collection[str], backend: str = CUDA.name) -> str:
    """Return how to avoid a reason, given all of a result's reasons; empty if there's no way or no
    need.
    """
    overflowed = not EVENTS_LOST_BEFORE.isdisjoint(reasons)
    if name == "no_allocations" and overflowed:
        return for_backend(KEPT_ONE, backend)
    if name in EVENTS_LOST_BEFORE and "no_allocations" in reasons:
        return ""
    if name == "no_events" and "segments_only" in reasons:
        name = "segments_only"
    reason = REASONS.get(name)
    return "" if reason is None else for_backend(reason.remedy, backend)


def reason_notes(
    reasons: tuple[str, ...],
    *,
    trusted: bool,
    backend: str = CUDA.name,
    said: frozenset[str] = frozenset(),
    instead: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Note, ...]:
    """Return a note per reason, which is a warning if the numbers aren't `trusted`.

    Reasons in `said` are stated elsewhere in the report, so only their remedies are included. If
    several reasons share a remedy, it's stated once, after the first of them. `instead` has other
    wordings, for reports that aren't about a peak.
    """
    notes = []
    advised = set()
    for name in reasons:
        if name in EVENTS_LOST_BEFORE and "no_allocations" in reasons:
            continue  # both reasons say that an earlier peak may be missing
        if name == "no_events" and name in said and "segments_only" in reasons:
            continue  # has the same remedy
        level: Level = "note" if name in REMARKS else "warning"
        reason = REASONS.get(name) or Reason(name.replace("_", " "), "")
        what, remedy = instead.get(name, reason.what), remedy_of(name, reasons, backend)
        if remedy in advised:
            remedy = ""
        advised.add(remedy)
        if name in said:
            if remedy:
                notes.append(Note(f"next time, {remedy}", "note"))
        else:
            notes.append(Note(f"{what}; next time, {remedy}" if remedy else what, level))
    if not trusted and not reasons:
        notes.append(Note("these numbers may be inexact", "warning"))
    return tuple(notes)


class Judged(Protocol):
    """A part of a report that has a verdict."""

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
    """Return the `reason_notes` for a part of a report."""
    return reason_notes(
        found.reasons, trusted=found.trusted, backend=found.backend, said=said, instead=instead
    )


def unknown_text(devices: Sequence[int]) -> str:
    """Describe the devices whose trace was cut off because the file is truncated."""
    which = f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}"
    return (
        f"{which} unknown: the file is cut off before"
        f" {'their traces' if len(devices) > 1 else 'its trace'}; dump again"
    )
