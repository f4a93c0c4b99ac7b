"""Judge whether a replay's numbers can be trusted, and give the reasons if they can't."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import memreplay._core as _core
from memreplay.analysis.trust.ring import overflow_signs, overflowed
from memreplay.snapshot.model import Exactness, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

    class _Graded(Protocol):
        @property
        def exactness(self) -> Exactness: ...


# Reasons that leave the numbers exact, although more may have happened than the file shows.
EXACT_ALL_THE_SAME = {
    "no_allocations",
    "no_events",
    "more_in_file",
    "notes_disagree",
    "notes_unreadable",
    "recorder_failed",
    "pending_frees",
    "recording_begun_late",
    "ring_overflow",
    "ring_overflow_likely",
    "segments_only",
    "made_by_simulation",
    "synthetic_pool_events",
}
# The events in the file are exact, but earlier events are lost.
EVENTS_LOST_BEFORE = frozenset({"ring_overflow", "ring_overflow_likely"})
# A torch.profiler trace that doesn't report reserved memory.
WITHOUT_RESERVED = "profiler_without_reserved"
# Only the final state is known.
NOT_RECORDED = frozenset({"no_events", "no_allocations"})
# Numbers are exact, but only for part of the run, so the run's peak may be missing.
UNSEEN = EVENTS_LOST_BEFORE | NOT_RECORDED
# Informational reasons, which don't cast doubt on the numbers. With `blocks_assumed`, each block of
# assumed size can be up to 1 MiB larger.
REMARKS = EXACT_ALL_THE_SAME - UNSEEN | {
    "blocks_assumed",
    "fake_tensors",
    "pending_at_start",
    "from_profiler",
    WITHOUT_RESERVED,
    "segment_events_unseen",
    "simulation_estimated",
}

# Actions that change reserved memory, and actions that increase it.
_OF_SEGMENTS = tuple(i for i, name in enumerate(_core.ACTIONS) if name.startswith("segment_"))
_REQUESTED, _COMPLETED = map(_core.ACTIONS.index, ("free_requested", "free_completed"))
_GROWTH = tuple(_core.ACTIONS.index(name) for name in ("segment_alloc", "segment_map"))

_EVENTS_LOST = {
    "unmatched_frees",
    "double_allocs",
    "size_mismatches",
    "unmatched_requests",
    "start_impossible",
    "measures_disagree",
}

# torch.profiler traces always lack these data, which `from_profiler` and `no_blocks` already say.
_NOT_IN_PROFILES = {
    "blocks_assumed",
    "blocks_disagree",
    "blocks_misplaced",
    "segments_disagree",
    "skip_actions",
}

_DEFAULT_POOL = (0, 0)

# Maximum number of bytes by which a block can be larger than assumed.
_SLACK_BYTES = 1 << 20

# Maximum number of blocks that may differ at the end of a trace. PyTorch reads the trace before the
# segments, and a few allocations can happen in between.
TAIL_BLOCKS = 16


def verdict(snap: Snapshot, usage: Usage, *, strict: bool = False) -> Verdict:
    """Judge one of a device's measures.

    Reasons are stable names, listed in docs/numbers.md. Makes only the checks that the measure
    needs; with `strict`, also all checks of `device_verdict`.
    """
    if strict:
        return _strict(snap, usage)
    replay = usage.replay
    reasons = _of_the_file(snap, replay)
    if usage.measure == "reserved" and _has_segment_changes(replay):
        reasons = [one for one in reasons if one != "no_allocations"]
    if "fake_tensors" in reasons and usage.measure not in ("requested", "held"):
        reasons.append("no_allocator")
    if "from_profiler" in reasons and not _profiled(snap, usage):
        reasons.append("no_blocks")
    if usage.measure == "reserved":
        # If events are missing, some of them may be segment events.
        reasons += [one for one in _of_the_trace(replay) if one in _EVENTS_LOST]
        reasons += _of_the_start(snap, replay)
        reasons += _of_segments(snap, replay)
        reasons += _of_the_end_of_all(snap, replay)
    else:
        reasons += _of_the_trace(replay)
        reasons += _of_the_start(snap, replay)
        reasons += _of_the_end(snap, usage)
        if usage.measure in ("requested", "held") and snap.without_requested_size(replay.device):
            reasons.append("no_requested_sizes")
        if usage.measure in ("held", "allocated"):
            reasons += _of_requests(replay)
        if usage.measure in ("active", "allocated"):
            reasons += _of_blocks(snap, replay)
    return graded(list(dict.fromkeys(reasons)))


def knows_reserved(snap: Snapshot, replay: Replay) -> bool:
    """Return whether the file says what was reserved, and no segment event is missing."""
    return replay.shows_reserved and not _lacks_segment_events(snap, replay)


def device_verdict(snap: Snapshot, replay: Replay) -> Verdict:
    """Judge a device's replay by all checks."""
    reasons = _of_the_file(snap, replay) + _of_the_trace(replay) + _of_the_start(snap, replay)
    for measure in ("requested", "held", "active", "allocated"):
        reasons += _of_the_end(snap, replay.measure(measure))
    reasons += _of_segments(snap, replay)
    if snap.without_requested_size(replay.device):
        reasons.append("no_requested_sizes")
    reasons += _of_requests(replay)
    reasons += _of_blocks(snap, replay)
    reasons += _of_the_tail(reasons, replay)
    # Blocks that are live before a selected range, or that seem to be because the file was cut off,
    # don't show when recording began.
    if (
        replay.events
        and replay.carried_over_bytes
        and replay.first_event == 0
        and snap.truncation is None
        # A stack shows that the block was recorded, and that its event was overwritten.
        and replay.unexplained.recorded_bytes * 2 <= replay.carried_over_bytes
    ):
        reasons.append("recording_begun_late")
    if replay.holding.pending and "completions_skipped" not in reasons:
        reasons.append("pending_frees")
    if replay.blocks.synthetic:
        reasons.append("synthetic_pool_events")
    return graded(list(dict.fromkeys(reasons)))


def _strict(snap: Snapshot, usage: Usage) -> Verdict:
    """Judge a measure with all of its device's checks.

    A lost event may be noticeable only in another measure.
    """
    own = verdict(snap, usage)
    whole = device_verdict(snap, usage.replay)
    if usage.measure == "reserved" and _has_segment_changes(usage.replay):
        whole = graded([one for one in whole.reasons if one != "no_allocations"])
    return joined([own, whole], exact=own.exact)


def graded(reasons: Sequence[str]) -> Verdict:
    """Combine reasons into a verdict."""
    found = set(reasons)
    if "from_profiler" in found:
        # A profiler trace has no blocks, and records a free when the program releases the memory.
        reasons = [one for one in reasons if one not in _NOT_IN_PROFILES]
        found = set(reasons)
    return Verdict(
        trusted=found <= REMARKS,
        exactness=exactness_of(found <= EXACT_ALL_THE_SAME),
        reasons=tuple(reasons),
    )


def exactness_of(*are_exact: bool) -> Exactness:
    """Return the grade of a number: "exact" if everything it's computed from is exact.

    Only this function determines grades; `least_exact` combines them.
    """
    return "exact" if all(are_exact) else "estimated"


def least_exact(numbers: Iterable[_Graded]) -> Exactness:
    """Return the grade of a number that's computed from numbers with grades."""
    return exactness_of(*(one.exactness == "exact" for one in numbers))


def joined(verdicts: Sequence[Verdict], *, exact: bool, reasons: Iterable[str] = ()) -> Verdict:
    """Combine verdicts into one; `reasons` are added after the verdicts' reasons, without
    duplicates.
    """
    every = [*(reason for one in verdicts for reason in one.reasons), *reasons]
    return Verdict(
        trusted=all(one.trusted for one in verdicts),
        exactness=exactness_of(exact),
        reasons=tuple(dict.fromkeys(every)),
    )


def _of_the_file(snap: Snapshot, replay: Replay) -> list[str]:
    reasons = []
    if snap.truncation is not None:
        reasons.append("truncated")
    # A device that was idle while others worked was recorded, too.
    if not snap.has_events:
        reasons.append("no_events")
        if "bare_list" in snap.traits:
            reasons.append("segments_only")
    elif replay.events and _was_not_recorded(snap, replay):
        reasons.append("no_allocations")
    # A device that released everything has no segments, so their absence is no reason for doubt.
    profiled = snap.recorder.get("recorder") == "torch.profiler"
    if profiled:
        reasons += _of_the_profiler(snap, replay)
    elif not snap.has_segments or (replay.reconciliation_bytes and snap.segment_count == 0):
        reasons.append("no_segments")
    if overflowed(snap, replay.device):
        reasons.append("ring_overflow")
    elif overflow_signs(snap, replay):
        reasons.append("ring_overflow_likely")
    if snap.is_followed_by_data:
        reasons.append("more_in_file")
    if snap.notes_flaw:
        reasons.append("notes_unreadable")
    if snap.recorded_flaw:
        reasons.append("notes_disagree")
    if snap.recorder_failures:
        reasons.append("recorder_failed")
    recorder = snap.recorder.get("recorder")
    if recorder == "estimate":
        reasons.append("fake_tensors")
    if recorder == "simulate":
        noted = snap.recorder.get("simulated")
        is_exact = isinstance(noted, dict) and noted.get("reasons") == []
        reasons.append("made_by_simulation" if is_exact else "simulation_estimated")
    return reasons


def _was_not_recorded(snap: Snapshot, replay: Replay) -> bool:
    """Return whether the file's events show no activity on any device.

    A dump adds an event, and state-only recording keeps the last event. memreplay's recorder notes
    that recording was on.
    """
    if replay.allocations or replay.events < snap.trace_events(replay.device):
        return False
    if snap.has_action("alloc", "free_requested"):
        return False
    # A profiler trace has one event per free, and no requests to free.
    if "profiler" in snap.recorder:
        return False
    # For devices that aren't selected, only the number of events is known, and dumping adds one.
    others = (n for device, n in snap.events_by_device.items() if device != replay.device)
    return "max_entries" not in snap.recorder and not any(n > 1 for n in others)


def _has_segment_changes(replay: Replay) -> bool:
    """Return whether the trace shows changes of reserved memory, even without allocations.

    State-only recording leaves one event, which may be a segment's.
    """
    counts = replay.tally.actions
    return replay.events > 1 and any(counts.get(code) for code in _OF_SEGMENTS)


def _of_the_profiler(snap: Snapshot, replay: Replay) -> list[str]:
    """Return the reasons for a torch.profiler trace: what it doesn't say, and whether its totals
    agree.
    """
    reasons = ["from_profiler"]
    noted = snap.recorder.get("profiler")
    noted = noted if isinstance(noted, dict) else {}
    disagreeing, without = noted.get("disagreeing"), noted.get("without_totals")
    if isinstance(disagreeing, dict) and str(replay.device) in disagreeing:
        reasons.append("profiler_totals_disagree")
    if isinstance(without, list) and replay.device in without:
        reasons.append("profiler_without_totals")
    if not _has_reserved(snap, replay.device):
        reasons.append(WITHOUT_RESERVED)
    return reasons


def _profiled(snap: Snapshot, usage: Usage) -> bool:
    """Return whether a torch.profiler trace has the data that this measure needs."""
    if usage.measure in ("requested", "held"):
        return True
    return usage.measure == "reserved" and _has_reserved(snap, usage.replay.device)


def _has_reserved(snap: Snapshot, device: int) -> bool:
    noted = snap.recorder.get("profiler")
    peaks = noted.get("reserved_peak_bytes") if isinstance(noted, dict) else None
    return isinstance(peaks, dict) and str(device) in peaks


def _of_the_trace(replay: Replay) -> list[str]:
    reasons = []
    if replay.unmatched_frees:
        reasons.append("unmatched_frees")
    if replay.double_allocs:
        reasons.append("double_allocs")
    if replay.size_mismatches:
        reasons.append("size_mismatches")
    return reasons


def _of_the_start(snap: Snapshot, replay: Replay) -> list[str]:
    """Check that live memory always fits into reserved memory."""
    if not _has_all(snap):
        return []
    reasons = []
    sound = replay.soundness
    if sound["impossible"] or sound["overlaps"]:
        reasons.append("start_impossible")
    # If every free completes right after its request, unmatched requests need no check.
    if sound["waiting"] and replay.holding.unmatched:
        reasons.append("unmatched_requests")
    # If segment events are missing, the error is in reserved memory, not in live memory.
    if sound["short_events"] and not _segments_apart(snap, replay):
        reasons.append("measures_disagree")
    return reasons


def _has_all(snap: Snapshot) -> bool:
    """Return whether the file has both events and segments to compare."""
    return snap.truncation is None and snap.segment_count > 0


def _segments_apart(snap: Snapshot, replay: Replay) -> bool:
    """Return whether segment events are missing.

    If segment events are missing, the others don't lead to the final segments, or blocks lie
    outside reserved memory.
    """
    found = replay.reserved
    if found.misfits or found.impossible_events:
        return True
    if replay.reaches_end and found.end_bytes != found.final_bytes:
        return True
    if replay.soundness["outside"] or replay.blocks.outside:
        return True
    # If the allocator releases its lock to call the driver, other threads can free memory between
    # the decision to make the call and the alloc event.
    return bool(replay.blocks.passed_over) and not snap.settings.get("release_lock_on_cudamalloc")


def _of_the_end(snap: Snapshot, usage: Usage) -> list[str]:
    """Check that the measure's final value agrees with the file's segments."""
    if snap.truncation is not None or snap.segment_count == 0:
        # Truncated files and files without segments can't agree. Other reasons report them.
        return []
    apart = usage.reconciliation_bytes
    return ["segments_disagree"] if apart else []


def _lacks_segment_events(snap: Snapshot, replay: Replay) -> bool:
    """Return whether segment events are missing, as far as the file's segments show."""
    return snap.truncation is None and snap.has_segments and _segments_apart(snap, replay)


def _of_segments(snap: Snapshot, replay: Replay) -> list[str]:
    if snap.truncation is not None or not snap.has_segments:
        return []
    if _lacks_segment_events(snap, replay):
        return ["segment_events_disagree"]
    return ["segment_events_unseen"] if _unseen(snap, replay) else []


def _unseen(snap: Snapshot, replay: Replay) -> bool:
    """Return whether segments may have appeared without an event.

    Such a segment is empty at the start, and its first allocation would have created it. A segment
    that was already cached looks the same, so assume that it was cached. Exceptions: nothing was
    live at the start, or the segments were recorded but the trace never reserves memory.
    """
    blocks = replay.blocks
    # With a range, events outside it may have created the segments.
    if not blocks.fitting or replay.events < snap.trace_events(replay.device):
        return False
    if not replay.carried_over_bytes:
        return True
    if not blocks.fitting_recorded:
        return False
    counts = replay.tally.actions
    return not any(counts.get(code) for code in _GROWTH)


def _of_the_end_of_all(snap: Snapshot, replay: Replay) -> list[str]:
    """Check that the final live set equals the segments' contents. If it doesn't, the process went
    on after the trace, and later changes of segments are unknown.
    """
    if snap.truncation is not None or snap.segment_count == 0:
        return []
    ends = (replay.measure("requested"), replay.measure("held"))
    apart = replay.blocks.end_strangers or any(end.reconciliation_bytes for end in ends)
    return ["segments_disagree"] if apart else []


def _of_requests(replay: Replay) -> list[str]:
    """Find frees that complete without a request because the recorder skipped requests.

    Otherwise, e.g. for a carried-over block, the request came before the trace or was lost.
    """
    holding = replay.holding
    # If the first event completes a free, the request for that free came before the trace.
    early = _begins_with_completed_free(replay) and holding.unrequested == 1
    reasons = ["skip_actions"] if holding.unrequested and not early else []
    if holding.presumed or early:
        reasons.append("pending_at_start")
    return reasons


def _begins_with_completed_free(replay: Replay) -> bool:
    if not replay.events or replay.first_event:
        return False
    return replay.value("action", 0) == _COMPLETED


def _of_blocks(snap: Snapshot, replay: Replay) -> list[str]:
    if snap.truncation is not None:
        # Allocations made after the cut would seem to contradict the trace.
        return []
    blocks = replay.blocks
    reasons = []
    if blocks.misplaced:
        reasons.append("blocks_misplaced")
    elif blocks.assumed or _may_be_restored(snap, replay):
        reasons.append("blocks_assumed")
    if blocks.end_misfits:
        reasons.append("blocks_disagree")
    if not snapshot_events_agree(replay):
        reasons.append("snapshot_events_disagree")
    if _has_all(snap) and not _active_fits(snap, replay):
        reasons.append("measures_disagree")
    return reasons


def _may_be_restored(snap: Snapshot, replay: Replay) -> bool:
    """Return whether a CUDA graph tree may have restored a block that was freed in the trace.

    A restored block has no padding, so it's smaller than torch_npu's rule says. Only the stack of
    its allocation would show that it was restored, but that allocation came before the trace.
    """
    if not replay.backend.pad_bytes:
        return False
    pools = [None if pool is None else snap.pool_id(pool) for pool, _ in replay.blocks.origins()]
    if not any(pool not in (None, _DEFAULT_POOL) for pool in pools):
        return False
    # An unknown pool may be private.
    private = {origin for origin, pool in enumerate(pools) if pool != _DEFAULT_POOL}
    return not private.isdisjoint(replay.origins_of_whole_blocks)


def _active_fits(snap: Snapshot, replay: Replay) -> bool:
    """Check that active bytes always lie between requested and reserved bytes."""
    from memreplay.engine.replay import _soundness

    below, above = _soundness.active_fit(replay.blocks)
    # If segment events are missing, reserved bytes are wrong.
    return below is None and (above is None or _segments_apart(snap, replay))


def _of_the_tail(reasons: list[str], replay: Replay) -> list[str]:
    """Explain why the trace and the segments end differently: events of one kind were skipped, or
    the dump was made during work or after recording had stopped.
    """
    if _EVENTS_LOST & set(reasons):
        return []
    # Ignore mismatches that affect only blocks and segments, because estimated sizes differ at the
    # end even without a race, and segment events may have been skipped.
    ends = (replay.measure("requested"), replay.measure("held"))
    if "segments_disagree" not in reasons or not any(end.reconciliation_bytes for end in ends):
        return []
    counts = replay.tally.actions
    if counts.get(_REQUESTED) and not counts.get(_COMPLETED):
        return ["completions_skipped"]
    blocks = replay.blocks
    few = blocks.end_misfits <= TAIL_BLOCKS and not blocks.misplaced
    return ["tail_race"] if few else ["recording_stopped"]


def snapshot_events_agree(replay: Replay) -> bool:
    """Return whether each `snapshot` event's total equals the active bytes.

    These events serve as checksums within the trace. A total may be higher by as much as blocks of
    assumed size can be larger.
    """
    totals = replay.snapshot_totals
    if not totals:
        return True
    series = memoryview(replay.measure("active").column)
    most = replay.blocks.assumed * _SLACK_BYTES
    return all(0 <= size - series[at] <= most for at, size in totals)
