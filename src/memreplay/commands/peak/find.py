"""Compute each device's peak, and what held memory at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET

from memreplay.analysis.annotations.spans import open_at, spans
from memreplay.analysis.calls.calltree import TreeOptions, call_tree
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.kinds import categories_at, categories_source
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import check_reserved, chosen_usages, fitting_by
from memreplay.analysis.selecting.selection import OUTPUT, Selection, WithHolders, WithRules
from memreplay.analysis.steps.records import StepAt
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.peak.result import DevicePeak, PeakReport
from memreplay.declared import Opt
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.analysis.caught.catching import Catching
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot


class PeakOptions(TreeOptions, frozen=True):
    """Options for what else to show about the peak."""

    peaks: Annotated[
        int,
        Opt(
            "Also list the N highest separate peaks.",
            "N",
            least=0,
            group=OUTPUT,
        ),
    ] = 0
    caught: WithRules = False
    holders: WithHolders = False


@takes(selection=Selection, options=PeakOptions)
def peak_report(snap: Snapshot, selection: Selection, options: PeakOptions) -> PeakReport:
    """Return each device's peak with its live set in groups.

    `by` defaults to "stack" ("pool" for reserved memory). `top` limits the number of groups per
    device (0: all). `peaks` is the number of separate maxima. `tree` gives a call tree in place of
    groups, `caught` adds what each category rule matched, and `holders` which Python objects kept
    the memory alive. With `pool` or `stream`, only memory
    of that pool or stream counts, and devices without it are left out. With `strict`, all of a
    device's checks are made, as for a summary. With `fold`, stacks that differ only in plumbing
    frames are merged. Raises UsageError for an unknown device, pool or stream.
    """
    options.check(selection)
    rules = None
    if options.caught:
        from memreplay.analysis.caught.catching import catching  # imported late: rarely used

        rules = catching(snap, selection)
    by = fitting_by(selection.measure, selection.by, by_request=True)
    check_reserved(by, selection.measure, selection.pool, selection.stream)
    grouper = Grouper(snap, by, selection.rules, fold=selection.fold and not options.tree)
    usages = chosen_usages(snap, selection)
    return PeakReport(
        file=snap.file,
        measure=selection.measure,
        by=by,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(
            device_peak(snap, usage, (grouper, rules), selection, options) for usage in usages
        ),
    )


def device_peak(
    snap: Snapshot,
    usage: Usage,
    groupers: tuple[Grouper, Catching | None],
    selection: Selection,
    options: PeakOptions,
) -> DevicePeak:
    """Return one device's peak. The second of `groupers` is for category rules."""
    grouper, rules = groupers
    replay = usage.replay
    point = usage.peak
    held = grouper.held(usage, point.event_index, selection.top, point.bytes)
    trust = verdict(snap, usage, strict=selection.strict)
    reserved = usage.measure == "reserved"
    annotations, step = where_in(snap, replay, point.event_index)
    return DevicePeak(
        **inlined(DevicePeak, device_facts(snap, replay, trust), held),
        measure=usage.measure,
        peak_bytes=point.bytes,
        peak_event=point.event_index,
        peak_us=point.time_us,
        carried_over_bytes=usage.start_bytes,
        carried_over_at_peak_bytes=0 if reserved else usage.carried_held(point.event_index),
        end_bytes=usage.end_bytes,
        annotation=annotations[-1] if annotations else None,
        step=step,
        categories_source=categories_source(snap),
        categories=() if reserved else categories_at(grouper, usage, point.event_index),
        peaks=usage.peaks(options.peaks) if options.peaks else (),
        tree=call_tree(usage, point.event_index, grouper, options) if options.tree else UNSET,
        caught=UNSET if rules is None else rules.of(usage, point.event_index, selection.top),
        held_by=grouper.held_by(usage, point.event_index, selection.top)
        if options.holders
        else UNSET,
        annotations=annotations,
    )


def where_in(snap: Snapshot, replay: Replay, event: int) -> tuple[tuple[str, ...], StepAt | None]:
    """Return the annotations open after an event, outermost first, and the event's step.

    The step is the one in `memreplay steps`, if annotations mark steps.
    """
    every = spans(snap, replay)
    if not every:
        return (), None  # don't search for the optimizer, which would slow down every file
    # Imported late: few files need it
    from memreplay.analysis.steps.boundaries import known_steps, step_at

    return open_at(every, event), step_at(known_steps(snap, replay), replay, event)
