"""Writes a snapshot summary as a document for people."""

from __future__ import annotations

import json

from memreplay.analysis.trust.ring import Sign
from memreplay.commands.summary.result import (
    DeviceSummary,
    MeasureSummary,
    Overflow,
    RecordedRun,
    SnapshotSummary,
)
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.reasons import notes_of
from memreplay.render.trust import doubts_of, label_of
from memreplay.render.units import (
    count,
    counted,
    duration,
    range_words,
    size,
    time_utc,
)
from memreplay.texts import clean

_OVERFLOW: dict[Overflow, str] = {
    "yes": "ring overflowed",
    "likely": "ring probably overflowed",
    "no": "no overflow",
    "unknown": "overflow unknown",
}
_SIGNS: dict[Sign, str] = {
    "annotations_before": "probably full: annotations that always contain events ended before the"
    " first event",
    "recorded_before": "probably full, or recording was restarted: most memory that was carried"
    " over has recorded stacks",
    "round_count": "probably full: it has {there}, a number that people pass for max_entries",
    "same_count": "probably full: it has {there}, as many as another one that isn't alike",
    "state_only": "probably full: it has only {there}, but blocks have recorded stacks",
}
_CONTAINERS = {"zstd": "Zstandard", "parquet": "Parquet tables", "arrow": "Arrow tables"}


def summary_document(summary: SnapshotSummary) -> Document:
    """The file first, then a section a device, each opening with its verdict."""
    blocks: list[Block] = [Heading((Place(file=summary.file),)), Pairs(_file_pairs(summary))]
    if not summary.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    for device in summary.devices:
        blocks += _section(device)
    return tuple(blocks)


def _recorded(run: RecordedRun) -> str:
    """`memreplay record, with categories; PyTorch 2.9.1, A100, rank 3 of 8, on node7`."""
    known = "with" if run.categories else "without"
    words = [f"PyTorch {run.torch}"] if run.torch else []
    if run.cards:
        many = f"{len(run.cards)} x " if len(run.cards) > 1 else ""
        words.append(f"{many}{run.cards[0]}")
    if run.rank is not None and run.world_size is not None and run.world_size > 1:
        words.append(f"rank {run.rank} of {run.world_size}")
    if run.host:
        words.append(f"on {run.host}")
    if run.by == "torch.profiler":
        return "torch.profiler, with the sizes of whole blocks"
    whole = clean(f"memreplay {run.by}, {known} categories")
    return f"{whole}; {clean(', '.join(words))}" if words else whole


def _file_pairs(summary: SnapshotSummary) -> tuple[tuple[str, str], ...]:
    pairs = [("format", _format(summary)), ("written by", summary.generation)]
    if summary.recorded is not None:
        pairs.append(("recorded by", _recorded(summary.recorded)))
    stacks = "none recorded"
    if summary.has_stacks:
        stacks = f"{count(summary.stacks)} distinct, of {counted(summary.frames, 'distinct frame')}"
    pairs.append(("stacks", stacks))
    if not summary.has_times:
        pairs.append(("times", "none recorded"))
    if summary.annotations:
        pairs.append(("annotations", count(summary.annotations)))
    # That it did overflow, the devices' warnings say, with what to do about it.
    if summary.settings_changed:
        changed = (f"{name} = {_value(v)}" for name, v in summary.settings_changed.items())
        pairs += (("" if number else "settings", line) for number, line in enumerate(changed))
    elif summary.settings:
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
                    count(state.blocks),
                    size(state.size_bytes),
                    # What an inactive block was once asked for says nothing: it is free.
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
                size(one.start_bytes),
                size(one.peak_bytes),
                "start" if one.event_index < device.first_event else count(one.event_index),
                size(one.end_bytes),
                _label(one, device),
            )
        )
        for one in device.measures
    )
    return Table(titles, ("left", *("right",) * 4, "left"), rows)


def _headline(device: DeviceSummary) -> tuple[str, ...]:
    name = f"device {device.device}: "
    if device.events == 0 and device.trace_events:
        return (f"{name}no events in this range",)
    if device.events == 0 and "no_events" not in device.reasons:
        return (f"{name}no events",)
    if device.events == 0:
        return (f"{name}no events were recorded; only the final state is known",)
    events = name + counted(device.events, "event")
    if device.first_us is not None and device.last_us is not None and device.events > 1:
        events += f" in {duration(device.last_us - device.first_us)}"
    return (events, _verdict(device))


def _verdict(device: DeviceSummary) -> str:
    """`exact (active, allocated: estimated)`: that of requested bytes, and of others that have
    another one."""
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
        words = range_words(device.first_event, device.events, device.trace_events)
        pairs.append(("range", words))
    if device.events and device.first_us is not None and device.last_us is not None:
        pairs.append(("from", time_utc(device.first_us)))
        pairs.append(("to", time_utc(device.last_us)))
    if device.events:
        actions = sorted(device.actions.items(), key=lambda item: (-item[1], item[0]))
        pairs.append(("actions", ", ".join(f"{name} {count(n)}" for name, n in actions if n)))
        pairs.append(("with a stack", _with_stack(device)))
    if device.pools > 1 or device.streams > 1:
        words = f"{counted(device.pools, 'pool')}, {counted(device.streams, 'stream')}"
        pairs.append(("parts", f"{words} (peak --by pool, --by stream)"))
    if device.segments:
        held = f"{size(device.reserved_bytes)} reserved, {size(device.active_bytes)} of it active"
        pairs.append(("segments", f"{count(device.segments)} at the end, {held}"))
    if device.events:
        pairs.append(("check", _check(device)))
        if ring := _ring(device):
            pairs.append(("ring buffer", ring))
    if device.unknown_actions:
        pairs.append(("odd", counted(device.unknown_actions, "unknown action")))
    return tuple(pairs)


def _check(device: DeviceSummary) -> str:
    """What the verdict rests on, said also where all is well."""
    apart = max((abs(one.reconciliation_bytes or 0) for one in device.measures), default=0)
    if device.reconciliation_bytes is None:
        ends = "range ends before the trace"
    elif device.segments:
        # The trace's end against the segments in the same file.
        ends = f"ends up to {count(apart)} B apart" if apart else "ends agree"
    else:
        ends = "no segments"
    blocks = f"{count(device.blocks_proven)} block sizes proven"
    if device.blocks_assumed:
        blocks += f" and {count(device.blocks_assumed)} assumed"
    return ", ".join(
        (
            ends,
            blocks,
            counted(device.unmatched_frees, "unmatched free"),
            counted(device.double_allocs, "double alloc"),
            _OVERFLOW[device.overflow],
        )
    )


def _ring(device: DeviceSummary) -> str:
    """What shows that the recorder's buffer dropped events; empty if nothing does."""
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
    """A setting's value as JSON, cut where somebody's file holds a novel."""
    text = value if isinstance(value, str) and value else json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."
