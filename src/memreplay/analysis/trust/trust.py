"""The verdict on a replay: whether its numbers can be trusted, and if not, the reasons by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.analysis.trust.ring import overflow_signs, overflowed
from memreplay.snapshot.model import Verdict, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot


# Reasons for which what is shown is exact, though more may have happened.
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
    "made_by_simulation",
    "synthetic_pool_events",
}
# What is left is exact, and what came before is lost.
EVENTS_LOST_BEFORE = frozenset({"ring_overflow", "ring_overflow_likely"})
# A trace of torch.profiler that has no reserved memory: the 0 B shown for it mean nothing.
WITHOUT_RESERVED = "profiler_without_reserved"
# Only the final state is known.
NOT_RECORDED = frozenset({"no_events", "no_allocations"})
# Numbers are exact for what was recorded, and that is not all: a peak may be missing.
UNSEEN = EVENTS_LOST_BEFORE | NOT_RECORDED
# Reasons that are no doubt. Blocks whose size is assumed may be larger by 1 MiB each, no more.
REMARKS = EXACT_ALL_THE_SAME - UNSEEN | {
    "blocks_assumed",
    "fake_tensors",
    "pending_at_start",
    "from_profiler",
    WITHOUT_RESERVED,
    "segment_events_unseen",
    "simulation_estimated",
}

# The actions by which reserved memory changes, and those by which it grows.
_OF_SEGMENTS = tuple(i for i, name in enumerate(_core.ACTIONS) if name.startswith("segment_"))
_GROWTH = tuple(_core.ACTIONS.index(name) for name in ("segment_alloc", "segment_map"))

_EVENTS_LOST = {
    "unmatched_frees",
    "double_allocs",
    "size_mismatches",
    "unmatched_requests",
    "start_impossible",
    "measures_disagree",
}

# What a trace of torch.profiler never has, which `from_profiler` and `no_blocks` say.
_NOT_IN_PROFILES = {
    "blocks_assumed",
    "blocks_disagree",
    "blocks_misplaced",
    "segments_disagree",
    "skip_actions",
}

# What each block whose size is assumed may be larger by, at most.
_SLACK_BYTES = 1 << 20

# How many blocks may differ at the end of a trace before it is no race any more: the trace is read
# out before the segments, and a few allocations may happen in between.
TAIL_BLOCKS = 16


def verdict(snap: Snapshot, usage: Usage, *, strict: bool = False) -> Verdict:
    """Whether a measure of a device can be trusted. The reasons are stable names; docs/numbers.md
    has them.

    It looks at what the measure itself needs; `device_verdict` looks at everything, and `strict`
    at both.
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
        # Where events are missing, some of them may be of segments.
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


def device_verdict(snap: Snapshot, replay: Replay) -> Verdict:
    """Whether a device's replay can be trusted, by everything that can be held against it."""
    reasons = _of_the_file(snap, replay) + _of_the_trace(replay) + _of_the_start(snap, replay)
    for measure in ("requested", "held", "active", "allocated"):
        reasons += _of_the_end(snap, replay.measure(measure))
    reasons += _of_segments(snap, replay)
    if snap.without_requested_size(replay.device):
        reasons.append("no_requested_sizes")
    reasons += _of_requests(replay)
    reasons += _of_blocks(snap, replay)
    reasons += _of_the_tail(reasons, replay)
    # Neither what is live where a range begins nor what came after a cut says when recording began.
    if (
        replay.events
        and replay.carried_over_bytes
        and replay.first_event == 0
        and snap.truncation is None
    ):
        reasons.append("recording_begun_late")
    if replay.holding.pending:
        reasons.append("pending_frees")
    if replay.blocks.synthetic:
        reasons.append("synthetic_pool_events")
    return graded(list(dict.fromkeys(reasons)))


def _strict(snap: Snapshot, usage: Usage) -> Verdict:
    """The verdict on a measure with everything that can be held against its device beside it.

    A lost event may leave one measure without a contradiction, and show in another.
    """
    own = verdict(snap, usage)
    whole = device_verdict(snap, usage.replay)
    if usage.measure == "reserved" and _has_segment_changes(usage.replay):
        whole = graded([one for one in whole.reasons if one != "no_allocations"])
    return joined([own, whole], exact=own.exact)


def graded(reasons: Sequence[str]) -> Verdict:
    """The verdict of these reasons."""
    found = set(reasons)
    if "from_profiler" in found:
        # It has no blocks at all, and a free there is when the program lets go.
        reasons = [one for one in reasons if one not in _NOT_IN_PROFILES]
        found = set(reasons)
    return Verdict(
        trusted=found <= REMARKS,
        exactness="exact" if found <= EXACT_ALL_THE_SAME else "estimated",
        reasons=tuple(reasons),
    )


def _of_the_file(snap: Snapshot, replay: Replay) -> list[str]:
    reasons = []
    if snap.truncation is not None:
        reasons.append("truncated")
    # A device that did nothing while others did was recorded all the same.
    if not snap.has_events:
        reasons.append("no_events")
    elif replay.events and _was_not_recorded(snap, replay):
        reasons.append("no_allocations")
    # A device that gave everything back has no segments, and needs none.
    profiled = snap.recorder.get("recorder") == "torch.profiler"
    if profiled:
        reasons += _of_the_profiler(snap, replay)
    elif not snap.has_segments or (replay.reconciliation_bytes and snap.segment_count == 0):
        reasons.append("no_segments")
    if overflowed(snap, replay.device):
        reasons.append("ring_overflow")
    elif overflow_signs(snap, replay):
        reasons.append("ring_overflow_likely")
    if snap.is_followed:
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
    """Whether the file's events tell of nothing that a program did, on any device: a dump leaves an
    event of its own, and a recording of the state only keeps the last event. memreplay's recorder
    notes that it was on."""
    if replay.allocations or replay.events < snap.trace_events(replay.device):
        return False
    if snap.has_action("alloc", "free_requested"):
        return False
    if "profiler" in snap.recorder:  # its trace has each free as one event, and no request
        return False
    # Of devices that were not read only the number of events is known; a dump leaves one.
    others = (n for device, n in snap.events_by_device.items() if device != replay.device)
    return "max_entries" not in snap.recorder and not any(n > 1 for n in others)


def _has_segment_changes(replay: Replay) -> bool:
    """Whether the trace tells how reserved memory changed, even if the recorder skipped the
    allocations. A recording of the state only leaves one event, which may be of a segment."""
    counts = replay.tally.actions
    return replay.events > 1 and any(counts.get(code) for code in _OF_SEGMENTS)


def _of_the_profiler(snap: Snapshot, replay: Replay) -> list[str]:
    """What a trace of torch.profiler leaves open, and whether its own totals are met."""
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
    """Whether a trace of torch.profiler says what this measure is made of."""
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
    """Whether what was live before the first event, and after each one, fits into what was
    reserved."""
    if not _has_all(snap):
        return []
    reasons = []
    sound = replay.soundness
    if sound["impossible"] or sound["overlaps"]:
        reasons.append("start_impossible")
    # A request whose free completes with the next event needs no look.
    if sound["waiting"] and replay.holding.unmatched:
        reasons.append("unmatched_requests")
    # Where segment events were left out, what they lead to is what is wrong.
    if sound["short_events"] and not _segments_apart(snap, replay):
        reasons.append("measures_disagree")
    return reasons


def _has_all(snap: Snapshot) -> bool:
    """Whether events and segments are both there, to be held against each other."""
    return snap.truncation is None and snap.segment_count > 0


def _segments_apart(snap: Snapshot, replay: Replay) -> bool:
    """Whether segment events are missing: they do not lead to the final segments, or blocks lie
    where nothing was reserved."""
    found = replay.reserved
    if found.misfits or found.odd:
        return True
    if replay.reaches_end and found.end_bytes != found.final_bytes:
        return True
    if replay.soundness["outside"] or replay.blocks.outside:
        return True
    # Where others may free while the driver is asked, what serves comes too late.
    return bool(replay.blocks.passed) and not snap.settings.get("release_lock_on_cudamalloc")


def _of_the_end(snap: Snapshot, usage: Usage) -> list[str]:
    """Whether the measure ends where the segments in the same file do."""
    if snap.truncation is not None or snap.segment_count == 0:
        # What is cut off cannot agree, and what has no segments neither: that is said already.
        return []
    apart = usage.reconciliation_bytes
    return ["segments_disagree"] if apart else []


def _of_segments(snap: Snapshot, replay: Replay) -> list[str]:
    if snap.truncation is not None or not snap.has_segments:
        return []
    if _segments_apart(snap, replay):
        return ["segment_events_disagree"]
    return ["segment_events_unseen"] if _unseen(snap, replay) else []


def _unseen(snap: Snapshot, replay: Replay) -> bool:
    """Whether segments may have come in the course of the trace of which it says nothing: those
    that nothing was in at the start, and whose first allocation is one that would make them.

    Cached segments look the same. They are taken for such, but not where nothing was live at the
    start, and not where no memory ever comes in a trace and a recording was on when they came.
    """
    blocks = replay.blocks
    # Where a range was read, what made them may be among the other events.
    if not blocks.fitting or replay.events < snap.trace_events(replay.device):
        return False
    if not replay.carried_over_bytes:
        return True
    if not blocks.fitting_recorded:
        return False
    counts = replay.tally.actions
    return not any(counts.get(code) for code in _GROWTH)


def _of_the_end_of_all(snap: Snapshot, replay: Replay) -> list[str]:
    """Whether what is live at the end is what the segments hold: else the process went on, and
    nobody knows which segments came and went."""
    if snap.truncation is not None or snap.segment_count == 0:
        return []
    ends = (replay.measure("requested"), replay.measure("held"))
    apart = replay.blocks.end_strangers or any(end.reconciliation_bytes for end in ends)
    return ["segments_disagree"] if apart else []


def _of_requests(replay: Replay) -> list[str]:
    """Frees that complete without a request: the recorder was told to skip those. Where it was
    not, of a block that was there at the start, the request may have come before, or is lost."""
    holding = replay.holding
    reasons = ["skip_actions"] if holding.unrequested else []
    if holding.presumed:
        reasons.append("pending_at_start")
    return reasons


def _of_blocks(snap: Snapshot, replay: Replay) -> list[str]:
    if snap.truncation is not None:
        # What was allocated after the cut lies where the trace has something else.
        return []
    blocks = replay.blocks
    reasons = []
    if blocks.misplaced:
        reasons.append("blocks_misplaced")
    elif blocks.assumed:
        reasons.append("blocks_assumed")
    if blocks.end_misfits:
        reasons.append("blocks_disagree")
    if not snapshot_events_agree(replay):
        reasons.append("snapshot_events_disagree")
    if _has_all(snap) and not _active_fits(snap, replay):
        reasons.append("measures_disagree")
    return reasons


def _active_fits(snap: Snapshot, replay: Replay) -> bool:
    """Whether, after each event, active bytes are at least those that were requested, and at most
    those that were reserved."""
    from memreplay.engine.replay import _soundness

    below, above = _soundness.active_fit(replay.blocks)
    # Where segment events are missing, reserved bytes are what is wrong.
    return below is None and (above is None or _segments_apart(snap, replay))


def _of_the_tail(reasons: list[str], replay: Replay) -> list[str]:
    """What an end that differs means: a dump in the midst of work, or one after recording."""
    if _EVENTS_LOST & set(reasons):
        return []
    # Of blocks and segments alone no word: sizes that are estimated end apart without any race, and
    # segment events may have been skipped.
    ends = (replay.measure("requested"), replay.measure("held"))
    if "segments_disagree" not in reasons or not any(end.reconciliation_bytes for end in ends):
        return []
    blocks = replay.blocks
    few = blocks.end_misfits <= TAIL_BLOCKS and not blocks.misplaced
    return ["tail_race"] if few else ["recording_stopped"]


def snapshot_events_agree(replay: Replay) -> bool:
    """Whether each `snapshot` event's total is what is active at that point.

    They carry the sum of active blocks: a checksum in the midst of the trace. Where sizes of blocks
    are assumed, as much more as these may have is no contradiction.
    """
    totals = replay.snapshot_totals
    if not totals:
        return True
    series = memoryview(replay.measure("active").column)
    most = replay.blocks.assumed * _SLACK_BYTES
    return all(0 <= size - series[at] <= most for at, size in totals)
