"""Format a snapshot summary as text."""

from __future__ import annotations

import json

from memreplay.analysis.trust.ring import Sign
from memreplay.commands.summary.result import (
    DeviceSummary,
    MeasureSummary,
    Overflow,
    SnapshotSummary,
)
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.reasons import notes_of
from memreplay.render.recorded_memory import card_line, host_line
from memreplay.render.trust import doubts_of, label_of
from memreplay.render.units import count, counted, duration, known_size, range_text, size, time_utc
from memreplay.snapshot.recorded_run import RecordedRun
from memreplay.texts import clean

_OVERFLOW: dict[Overflow, str] = {
    "yes": "ring overflowed",
    "likely": "ring probably overflowed",
    "no": "no ring overflow",
    "unknown": "ring overflow unknown",
}
_SIGNS: dict[Sign, str] = {
    "annotations_before": "probably full: annotations that always contain events ended before the"
    " first event",
    "recorded_before": "probably full, or recording was restarted: most carried-over memory"
    " has recorded stacks",
    "round_count": "probably full: exactly {there}, a typical max_entries",
    "same_count": "probably full: exactly {there}, as many as another device with different work",
    "state_only": "probably full: only {there}, but blocks have recorded stacks",
}
_CONTAINERS = {"zstd": "Zstandard", "parquet": "Parquet tables", "arrow": "Arrow tables"}


def summary_document(summary: SnapshotSummary) -> Document:
    """Build a section of facts about the file, then a section per device that starts with its
    verdict.
    """
    blocks: list[Block] = [Heading((Place(file=summary.file),)), Pairs(_file_pairs(summary))]
    if not summary.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    for device in summary.devices:
        blocks += _section(device)
    return tuple(blocks)


def _recorded(run: RecordedRun) -> str:
    """Return text such as `memreplay record, with categories; PyTorch 2.9.1, A100, rank 3 of 8, on
    node7`.
    """
    known = "with" if run.has_categories else "without"
    words = [f"PyTorch {run.torch}"] if run.torch else []
    if run.card_names:
        many = f"{len(run.card_names)} x " if len(run.card_names) > 1 else ""
        words.append(f"{many}{run.card_names[0]}")
    if run.rank is not None and run.world_size is not None and run.world_size > 1:
        words.append(f"rank {run.rank} of {run.world_size}")
    if run.host:
        words.append(f"on {run.host}")
    if run.recorder == "torch.profiler":
        return "torch.profiler, with the sizes of whole blocks"
    whole = clean(f"memreplay {run.recorder}, {known} categories")
    return f"{whole}; {clean(', '.join(words))}" if words else whole


def _file_pairs(summary: SnapshotSummary) -> tuple[tuple[str, str], ...]:
    pairs = [("format", _format(summary)), ("written by", summary.generation)]
    if summary.recorded is not None:
        pairs.append(("recorded by", _recorded(summary.recorded)))
    pairs += [(f"card {use.device}", card_line(use)) for use in summary.card_memory]
    if host := host_line(summary.host_memory):
        pairs.append(("host memory", host))
    stacks = "none recorded"
    if summary.has_stacks:
        frames = counted(summary.frame_count, "distinct frame")
        stacks = f"{count(summary.stack_count)} distinct, of {frames}"
    pairs.append(("stacks", stacks))
    if not summary.has_times:
        pairs.append(("times", "none recorded"))
    if summary.annotation_count:
        pairs.append(("annotations", count(summary.annotation_count)))
    # If the buffer overflowed, the devices' warnings say so.
    if summary.settings_changed:
        changed = (f"{name} = {_value(v)}" for name, v in summary.settings_changed.items())
        pairs += (("" if number else "settings", line) for number, line in enumerate(changed))
    elif summary.allocator_settings:
        pairs.append(("settings", "all at their defaults"))
    return tuple(pairs)


def _format(summary: SnapshotSummary) -> str:
    kind = f"pickle, protocol {summary.protocol}" if summary.protocol >= 0 else "JSON"
    unpacked = size(summary.stream_bytes)
    if summary.container != "pickle":
        packed = f"{_CONTAINERS.get(summary.container, summary.container)} of "
        if summary.file_bytes is not None:
            packed = f"{size(summary.file_bytes)} {packed}"
        return f"{packed}{unpacked} {kind}"
    return f"{unpacked} {kind}"


def _section(device: DeviceSummary) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(device)), Pairs(_device_pairs(device))]
    if device.events:
        blocks.append(_measures_table(device))
    if device.states:
        titles = ("blocks at the end", "count", "size", "requested")
        rows = tuple(
            Row(
                (
                    state.state,
                    count(state.block_count),
                    size(state.size_bytes),
                    # An inactive block is free, so the size of its last request doesn't mean
                    # anything.
                    "-" if state.state == "inactive" else size(state.requested_bytes),
                )
            )
            for state in device.states
        )
        blocks.append(Table(titles, ("left", "right", "right", "right"), rows))
    said = frozenset(("no_events",))
    blocks += notes_of(device, said=said)
    return blocks


def _measures_table(device: DeviceSummary) -> Table:
    titles = ("measure", "start", "peak", "at event", "end", "")
    rows = tuple(
        Row(
            (
                one.measure,
                known_size(one.start_bytes),
                known_size(one.peak_bytes),
                _event(one, device),
                known_size(one.end_bytes),
                _label(one, device),
            )
        )
        for one in device.measures
    )
    return Table(titles, ("left", *("right",) * 4, "left"), rows)


def _event(one: MeasureSummary, device: DeviceSummary) -> str:
    if one.peak_event is None:
        return "-"
    if one.peak_event >= device.first_event:
        return count(one.peak_event)
    # Without allocations, only one state is known, so there's no peak.
    return "-" if "no_allocations" in one.reasons else "start"


def _headline(device: DeviceSummary) -> tuple[str, ...]:
    name = f"device {device.device}: "
    if device.events == 0 and device.trace_events:
        return (f"{name}no events in this range",)
    if device.events == 0 and "no_events" not in device.reasons:
        return (f"{name}no events",)
    if device.events == 0:
        return (f"{name}no events were recorded; only the final state is known",)
    events = name + counted(device.events, "event")
    if device.start_us is not None and device.end_us is not None and device.events > 1:
        events += f" in {duration(device.end_us - device.start_us)}"
    return (events, _verdict(device))


def _verdict(device: DeviceSummary) -> str:
    """Return the verdict on requested bytes, and on measures with a different verdict, such as
    `exact (active, allocated: estimated)`.
    """
    labels = {one.measure: _label(one, device) for one in device.measures}
    first = labels["requested"]
    others: dict[str, list[str]] = {}
    for measure, label in labels.items():
        if label != first:
            others.setdefault(label, []).append(measure)
    if doubts_of(device.reasons) and not any(doubts_of(one.reasons) for one in device.measures):
        return label_of(first, device.reasons)
    more = "; ".join(f"{', '.join(measures)}: {label}" for label, measures in others.items())
    return f"{first} ({more})" if more else first


def _label(one: MeasureSummary, device: DeviceSummary) -> str:
    return label_of(one.exactness, one.reasons, device.trace_events)


def _device_pairs(device: DeviceSummary) -> tuple[tuple[str, str], ...]:
    pairs = []
    if device.events < device.trace_events:
        words = range_text(device.first_event, device.events, device.trace_events)
        pairs.append(("range", words))
    if device.events and device.start_us is not None and device.end_us is not None:
        pairs.append(("from", time_utc(device.start_us)))
        pairs.append(("to", time_utc(device.end_us)))
    if device.events:
        actions = sorted(device.actions.items(), key=lambda item: (-item[1], item[0]))
        pairs.append(("actions", ", ".join(f"{name} {count(n)}" for name, n in actions if n)))
        pairs.append(("with a stack", _with_stack(device)))
    if device.pool_count > 1 or device.stream_count > 1:
        words = f"{counted(device.pool_count, 'pool')}, {counted(device.stream_count, 'stream')}"
        pairs.append(("parts", f"{words} (peak --by pool, --by stream)"))
    if device.segments:
        held = f"{size(device.reserved_bytes)} reserved, {size(device.active_bytes)} of it active"
        pairs.append(("segments", f"{count(device.segments)} at the end, {held}"))
    if device.events:
        pairs.append(("check", _check(device)))
        if ring := _ring(device):
            pairs.append(("ring buffer", ring))
    if device.unknown_actions:
        pairs.append(("unknown", counted(device.unknown_actions, "action")))
    return tuple(pairs)


def _check(device: DeviceSummary) -> str:
    """Return the results of the checks behind the verdict, even if there are no problems."""
    apart = max((abs(one.reconciliation_bytes or 0) for one in device.measures), default=0)
    if device.reconciliation_bytes is None:
        ends = "range ends before the trace does"
    elif device.segments:
        # This check compares the end of the trace with the file's segments.
        ends = "final state matches"
        if apart:
            ends = f"final state off by up to {count(apart)} B"
        elif "blocks_disagree" in device.reasons:
            ends = "final blocks differ"
    else:
        ends = "no segments to check against"
    blocks = f"{count(device.blocks_proven)} block sizes proven"
    if device.blocks_assumed:
        blocks += f" and {count(device.blocks_assumed)} assumed"
    return ", ".join(
        (
            ends,
            blocks,
            counted(device.unmatched_frees, "unmatched free"),
            counted(device.double_allocs, "double allocation"),
            _OVERFLOW[device.overflow],
        )
    )


def _ring(device: DeviceSummary) -> str:
    """Describe the signs that the ring buffer dropped events, or return ""."""
    if device.dropped_events:
        return f"dropped at least {counted(device.dropped_events, 'event')} before these"
    there = counted(device.trace_events, "event")
    return "; ".join(_SIGNS[one].format(there=there) for one in device.overflow_signs)


def _with_stack(device: DeviceSummary) -> str:
    if device.events_with_stack == device.events:
        return "all"
    if device.events_with_stack == 0:
        return "none"
    return f"{count(device.events_with_stack)} of {counted(device.events, 'event')}"


def _value(value: object) -> str:
    """Return a setting's value as JSON, cut to a reasonable length."""
    text = value if isinstance(value, str) and value else json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."
