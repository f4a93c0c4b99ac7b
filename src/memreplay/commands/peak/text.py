"""Format a peak report as text."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.analysis.trust.trust import NOT_RECORDED
from memreplay.commands.peak.result import DevicePeak, PeakReport
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
    device_blocks,
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.headline import peak_phrases
from memreplay.render.holders import holder_tables, share
from memreplay.render.kinds import kinds_text
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    percent,
    range_text,
    signed_duration,
    size,
)
from memreplay.render.where import where_text


def peak_document(report: PeakReport, *, all_frames: bool = False) -> Document:
    """Build a section per device: the peak, its time, carried-over memory, and what held memory.

    `all_frames`: show full stacks.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    blocks += device_blocks([_section(peak, report, all_frames) for peak in report.devices])
    return tuple(blocks)


def headlines(report: PeakReport) -> Document:
    """Return the headline of each active device, with its peak and time."""
    return tuple(Heading(_headline(peak)) for peak in report.devices if not is_idle(peak))


def _section(peak: DevicePeak, report: PeakReport, all_frames: bool) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(peak))]
    if is_idle(peak) and len(report.devices) > 1:
        return blocks
    blocks.append(Pairs(_pairs(peak, report)))
    if peak.peaks:
        blocks.append(_peaks_table(peak))
    if report.filters and not peak.peak_bytes:
        blocks.append(Note(NOTHING_LEFT))
    if peak.tree is UNSET:
        blocks += holder_tables(peak, peak.peak_bytes, report.by, all_frames=all_frames)
    else:
        from memreplay.render.calltree import tree_table  # imported late: rarely used

        blocks += tree_table(peak.tree, peak.peak_bytes)
    if peak.caught is not UNSET:
        from memreplay.render.caught import caught_blocks  # imported late: rarely used

        blocks += caught_blocks(peak.caught, peak.peak_bytes, all_frames=all_frames)
    if peak.held_by is not UNSET:
        from memreplay.render.recorded_holders import live_holder_blocks  # imported late

        blocks += live_holder_blocks(peak.held_by, peak.peak_bytes)
    said = frozenset(("no_events",))
    blocks += notes_of(peak, said=said)
    return blocks


def _peaks_table(peak: DevicePeak) -> Table:
    rows = tuple(
        Row((size(one.bytes), _event(one.event_index, peak), _when(one.time_us, peak)))
        for one in peak.peaks
    )
    return Table(("highest peaks", "event", "time"), ("right", "right", "left"), rows)


def _event(index: int, peak: DevicePeak) -> str:
    return "start" if index < peak.first_event else count(index)


def _when(time_us: int | None, peak: DevicePeak) -> str:
    if time_us is None or peak.start_us is None:
        return "-"
    return signed_duration(time_us - peak.start_us)


def is_idle(peak: DevicePeak) -> bool:
    """Return whether the device was idle while others were recorded."""
    return peak.trace_events == 0 and "no_events" not in peak.reasons


def _headline(peak: DevicePeak) -> tuple[str, ...]:
    high = f"{size(peak.peak_bytes)} {peak.measure}"
    if is_idle(peak):
        # An idle device has no rows below that would mark the peak as estimated.
        high += " (estimated)" if peak.exactness == "estimated" else ""
    return peak_phrases(high, peak)


def _pairs(peak: DevicePeak, report: PeakReport) -> tuple[tuple[str, str], ...]:
    pairs = [("measure", f"{peak.measure}, {trust_label(peak)}")]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    pairs += filter_pairs(report.filters)
    if peak.events < peak.trace_events:
        pairs.append(("range", range_text(peak.first_event, peak.events, peak.trace_events)))
    # If the peak is at the start, all of its memory was carried over. Without events, only the
    # final state is known.
    if peak.peak_event >= peak.first_event:
        before = "before the range" if peak.first_event else "before the first event"
        carried = f"{size(peak.carried_over_bytes)} {before}"
        if peak.carried_over_at_peak_bytes:
            whole = peak.carried_over_at_peak_bytes == peak.carried_over_bytes
            held = "all" if whole else size(peak.carried_over_at_peak_bytes)
            part = percent(share(peak.carried_over_at_peak_bytes, peak.peak_bytes))
            carried += f", {held} of it in the peak ({part})"
        pairs.append(("carried over", carried))
    if peak.events:
        pairs.append(("end", f"{size(peak.end_bytes)} after the last event"))
    final = bool(NOT_RECORDED.intersection(peak.reasons))
    when = "" if final or not peak.events else " at the peak"
    if peak.measure != "reserved":
        pairs.append(("live", counted(peak.live_count, "block") + when))
    where = where_text(peak.step, peak.annotations)
    if where:
        pairs.append(("where", where))
    if peak.caught is not UNSET:
        from memreplay.render.caught import caught_text  # imported late: rarely used

        pairs.append(("categories", caught_text(peak.caught)))
    kinds = kinds_text(peak.categories_source, peak.categories, peak.peak_bytes)
    if kinds and report.by != "category":
        pairs.append(("categories", kinds))
    return tuple(pairs)
