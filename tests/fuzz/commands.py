"""Run every command's report on one input: each gives a result or a clear error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from operator import add
from typing import Any, NamedTuple

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.baseline_reading import parse_baseline
from memreplay.analysis.comparing.budgets import Budget
from memreplay.analysis.comparing.sides import BaselineSide
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.selecting.choice import BY_STACK
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.allocations.find import allocations_report
from memreplay.commands.allocations.text import allocations_document
from memreplay.commands.at.find import AtOptions, at_report
from memreplay.commands.at.text import at_document
from memreplay.commands.diff.find import diff_report
from memreplay.commands.diff.text import diff_document
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.fragmentation.segments_find import segments_report
from memreplay.commands.fragmentation.segments_text import segments_document
from memreplay.commands.fragmentation.text import fragmentation_document
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.leaks.text import leaks_document
from memreplay.commands.modules.find import modules_report
from memreplay.commands.modules.text import modules_document
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.text import oom_document
from memreplay.commands.plan.find import plan_report
from memreplay.commands.plan.text import plan_document
from memreplay.commands.report.find import overview
from memreplay.commands.report.text import report_document
from memreplay.commands.simulate.find import simulate_report
from memreplay.commands.simulate.text import simulate_document
from memreplay.commands.steps.find import steps_report
from memreplay.commands.steps.text import steps_document
from memreplay.commands.timeline.csv import render_timeline_csv
from memreplay.commands.timeline.find import timeline_report
from memreplay.commands.timeline.result import TimelineReport
from memreplay.commands.timeline.text import timeline_document
from memreplay.errors import UsageError
from memreplay.explore.rows.changes import Flow
from memreplay.export.viewers.chrome_trace import render_chrome
from memreplay.export.viewers.collapsed import render_collapsed
from memreplay.export.viewers.memory_timeline import render_coalesced, render_raw
from memreplay.export.viewers.perfetto import render_perfetto
from memreplay.export.viewers.pprof import render_pprof
from memreplay.export.viewers.speedscope import render_speedscope
from memreplay.export.viewers.torch_categories import category_events
from memreplay.export.viewers.tracks import trace_report
from memreplay.export.viewers.weighted import stacks_report
from memreplay.gating.base_lines import render_baseline
from memreplay.gating.find import gate_file
from memreplay.gating.reporting import gate_report, nowhere
from memreplay.gating.result import GateReport
from memreplay.gating.text import gate_document
from memreplay.render.markdown import render_markdown
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import MEASURES, AllocationsSort, When

BY = (*WAYS, "category,file", "size,stack")
SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:20,roundup_power2_divisions:4",
    "large_segment_size_mb:11,garbage_collection_threshold:0.5",
    "per_process_memory_fraction:0.1",
    "per_process_memory_fraction:0.001,garbage_collection_threshold:0.5",
)
SORTS: tuple[AllocationsSort, ...] = ("bytes", "count", "temporary", "mean-lifetime")
TOTALS: tuple[tuple[int, ...], ...] = ((), (1,), (100 << 20,), (1 << 62, 1 << 20))
MOMENTS = (
    When("peak", 1),
    When("peak", 2),
    When("start"),
    When("end"),
    When("event", 3),
    When("elapsed", 5),
    When("annotation", name="step"),
    When("annotation", name="step#-1", edge="peak"),
    When("address", 512),
)
FILTERS = (
    None,
    Filters(include=("f",)),
    Filters(exclude=("f",), min_bytes=512),
    Filters(only_live_at_end=True),
    Filters(only_carried_over=True),
    Filters(no_carried_over=True),
)

CHANGES: tuple[dict[str, Any], ...] = (
    {"scale": 0.0, "include": ".py"},
    {"scale": 0.5, "min_bytes": 1024},
    {"scale": 2.0, "no_carried_over": True},
    {"checkpoint": True, "category": ("unknown", "other")},
)


class Asked(NamedTuple):
    """A command with arguments: its report, and its writer."""

    report: Callable[[], Any]
    text: Callable[[Any], Any]
    as_json: Callable[[Any], str]


def questions(snap: mr.Snapshot, dice: int) -> list[Asked]:
    """Run each command once, with random arguments."""
    by = BY[dice // 4096 % len(BY)]
    measure: Any = MEASURES[dice // 4 % 5]
    of_blocks: Any = MEASURES[dice // 4 % 4]
    top = (0, 1, 20)[dice // 32 % 3]
    when = MOMENTS[dice // 128 % len(MOMENTS)]
    grouped = by if measure != "reserved" else "pool"
    filters = FILTERS[dice % len(FILTERS)]
    asked_for: Any = BY_STACK[dice // 4096 % len(BY_STACK)]
    share = (0.0, 0.01)[dice // 4 % 2]
    tree = AtOptions(
        tree=True,
        depth=dice % 4,
        tree_share=share,
        whole_stacks=dice % 3 == 0,
        inverted=dice // 8 % 2 == 0,
    )
    return [
        Asked(
            lambda: at_report(
                snap,
                [when],
                measure=of_blocks,
                by=by,
                top=top,
                list=dice % 2 == 0,
                annotations=dice % 5 == 0,
            ),
            at_document,
            render_json,
        ),
        Asked(
            lambda: at_report(snap, [when], options=tree, measure=of_blocks, filters=filters),
            at_document,
            render_json,
        ),
        Asked(
            lambda: at_report(snap, [when], measure="reserved", by=asked_for, top=top),
            at_document,
            render_json,
        ),
        Asked(
            lambda: segments_report(snap, top=top),
            lambda report: segments_document(report, top=top, listed=dice % 3 == 0),
            render_json,
        ),
        Asked(
            lambda: at_report(snap, when, measure=of_blocks, caught=True, top=top),
            at_document,
            render_json,
        ),
        Asked(
            lambda: modules_report(snap, measure=of_blocks, at=when, depth=dice % 4, top=top),
            modules_document,
            render_json,
        ),
        Asked(
            lambda: timeline_report(
                snap, measure=(measure,), points=1 + dice % 90, by=grouped, top=top
            ),
            lambda report: timeline_document(report, 80),
            render_json,
        ),
        Asked(
            lambda: allocations_report(
                snap,
                measure=of_blocks,
                by=by,
                top=top,
                filters=filters,
                sort=SORTS[dice // 64 % len(SORTS)],
                temporary=dice % 3,
            ),
            allocations_document,
            render_json,
        ),
        Asked(
            lambda: fragmentation_report(
                snap, at=when if dice % 3 else None, by=by, top=top, bars=20
            ),
            fragmentation_document,
            render_json,
        ),
        Asked(
            lambda: gated(snap, dice),
            gate_document,
            render_json,
        ),
        Asked(lambda: oom_report(snap, oom=0, by=by, top=top), oom_document, render_json),
        Asked(
            lambda: simulate_report(
                snap,
                set=SETTINGS[dice % len(SETTINGS)],
                program_memory=TOTALS[dice // 4 % len(TOTALS)],
                search=("settings",) if dice % 16 == 0 else (),
            ),
            simulate_document,
            render_json,
        ),
        Asked(
            lambda: simulate_report(snap, **CHANGES[dice // 8 % len(CHANGES)]),
            simulate_document,
            render_json,
        ),
        Asked(
            lambda: diff_report(
                snap, snap, at=when, measure=of_blocks, by=by, unchanged=dice % 2 == 0, top=top
            ),
            diff_document,
            render_json,
        ),
        Asked(
            lambda: simulate_report(
                snap, search="card", program_memory=(1 << 20,) if dice % 8 == 0 else ()
            ),
            simulate_document,
            render_json,
        ),
        # The search takes longer than other commands.
        *(
            [
                Asked(
                    lambda: plan_report(snap, fit=1 << dice // 16 % 44),
                    lambda report: plan_document(report, show_all=True),
                    render_json,
                )
            ]
            if dice % 16 == 1
            else []
        ),
        Asked(lambda: overview(snap), report_document, render_json),
        Asked(
            lambda: steps_report(snap, period=(None, 2)[dice % 2]),
            partial(steps_document, top=top),
            render_json,
        ),
        Asked(
            lambda: leaks_report(
                snap, windows=(None, 5)[dice % 2], by=by, top=top, filters=filters
            ),
            leaks_document,
            render_json,
        ),
    ]


def exports(snap: mr.Snapshot, dice: int) -> list[Callable[[], Iterator[bytes]]]:
    """Run each export for viewers once, with random arguments."""
    when = MOMENTS[dice // 128 % len(MOMENTS)]
    filters = FILTERS[dice % len(FILTERS)]
    stacks = partial(
        stacks_report,
        snap,
        what=("live", "allocated")[dice % 2],
        when=when,
        measure=MEASURES[dice // 4 % 4],
        all_frames=dice % 3 == 0,
    )
    tracks = partial(trace_report, snap, points=(0, 1, 50)[dice % 3], filters=filters)
    return [
        lambda: render_collapsed(stacks()),
        lambda: iter([render_speedscope(stacks())]),
        lambda: render_pprof(stacks(filters=filters)),
        lambda: render_chrome(tracks()),
        lambda: render_perfetto(tracks(stacks=True, when=when)),
        lambda: render_coalesced(category_events(snap, filters=filters)),
        lambda: render_raw(category_events(snap)),
    ]


JSON = (1, 3, 5, 6)  # exports that must be valid JSON


def gated(snap: mr.Snapshot, dice: int) -> GateReport:
    """Run `gate` on a snapshot, compared with itself and with its baseline file."""
    budgets = [
        Budget(max_peak=dice % 4096, max_growth=0.0, max_fragmentation=0.1, forbid_oom=True),
        Budget(measure=MEASURES[dice % 4], category="activations", max_peak=0),
        Budget(forbid_leaks=True, max_reserved=0),
    ]
    found = baseline_of(snap, top=(0, 1, 50)[dice % 3], budgets=budgets)
    text = render_baseline(found)
    base = parse_baseline(text.encode())
    if base != found:
        raise AssertionError("a baseline is read as another one than was written")
    side = BaselineSide(base, "base.json")
    file = gate_file(snap, budgets, base=side, allow_untrusted=dice % 2 == 0)
    for one in file.findings:
        if not one.kind.startswith("max_growth"):
            continue
        if one.outcome == "failed":
            raise AssertionError("a snapshot grew since itself")
        # A partly recorded device is an error unless the options allow skipping it.
        may = one.device in snap.unknown_devices or (one.reasons and dice % 2 == 1)
        if one.outcome == "not_judged" and not may:
            raise AssertionError("a growth that could be judged was not")
    return gate_report([file], (lambda path: path) if dice % 2 else nowhere)


def ask(snap: mr.Snapshot, dice: int) -> None:
    """Run a report; re-raise any exception that isn't a clear error."""
    for number, export in enumerate(exports(snap, dice)):
        try:
            found = b"".join(export())
        except UsageError as error:
            _check_plain(error)
            continue
        if number in JSON:
            json.loads(found)
    for device in snap.devices[:2]:
        moved(snap, device, dice)
        drawn(snap.replay(device).measure(MEASURES[dice // 8 % 5]))
    for asked in questions(snap, dice):
        try:
            report = asked.report()
        except UsageError as error:
            _check_plain(error)
            continue
        for width in (40, 100):
            render_plain(asked.text(report), width=width)
        render_markdown(asked.text(report))
        json.loads(asked.as_json(report))
        if isinstance(report, TimelineReport):
            render_timeline_csv(report)


def moved(snap: mr.Snapshot, device: int, dice: int) -> None:
    """Compute the changes between two events, as the explorer does; they must add up."""
    replay = snap.replay(device)
    usage = replay.measure(MEASURES[dice // 4 % 4])
    first, last = replay.start, replay.start + replay.events
    begin = first + replay.events * (dice % 3) // 4
    keys = Grouper(snap, [*WAYS][dice % len(WAYS)]).keys(usage)
    _, _, some, others = usage.traffic(keys, begin, last, 3)
    flow = Flow(*map(add, some, others))
    if (flow.before_bytes, flow.after_bytes) != (usage.bytes_at(begin), usage.bytes_at(last)):
        raise AssertionError(f"{flow} between events {begin} and {last} of {usage}")


def drawn(usage: mr.Usage) -> None:
    """Check that the curve drawn between some events includes all extremes."""
    first = usage.replay.first_event
    end = first + usage.replay.events
    low, high, at = usage.ranges([*range(first, end, 37), end])
    if high and (max(high), min(low)) != (usage.series.max(), usage.series.min()):
        raise AssertionError(f"a curve between {min(low)} and {max(high)} of {usage}")
    for top, event in zip(high, at, strict=True):
        if usage.bytes_at(event) != top:
            raise AssertionError(f"a curve has {top} after {event}: {usage.bytes_at(event)}")


def _check_plain(error: UsageError) -> None:
    text = str(error)
    if not text.isprintable() or len(text) > 1_000:
        raise AssertionError(f"an error of more than one plain line: {text!r}") from error
