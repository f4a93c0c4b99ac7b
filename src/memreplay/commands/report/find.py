"""Build the one-page report from the other commands' results, computed from the same replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.caught.catching import catching
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.leaks.judging import LeaksOptions
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import OF_ALLOCATIONS, Selection, TotalMemory
from memreplay.analysis.steps.records import StepOptions
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.commands.fragmentation.find import FragmentationOptions, fragmentation_report
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.oom.find import OomOptions, oom_report
from memreplay.commands.peak.find import PeakOptions, peak_report
from memreplay.commands.report.advice import advice_of, facts_of
from memreplay.commands.report.advice_text import advice_text, next_commands
from memreplay.commands.report.result import DeviceOverview, Overview, PeakStep, Unused
from memreplay.commands.steps.find import steps_report
from memreplay.declared import Options
from memreplay.errors import MemreplayError
from memreplay.snapshot.model import MEASURES
from memreplay.snapshot.recorded_allocator import unused_bytes
from memreplay.snapshot.recorded_holders import largest_holders
from memreplay.snapshot.recorded_memory import card_uses, host_use

if TYPE_CHECKING:
    from memreplay.analysis.caught.records import RulesCaught
    from memreplay.commands.oom.result import DeviceOoms, OomReport
    from memreplay.commands.peak.result import DevicePeak
    from memreplay.commands.steps.result import DeviceSteps
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

HOLDERS = 5  # number of groups at the peak
OTHERS = 3  # number of rows in the other parts

T = TypeVar("T")


class ReportOptions(Options, frozen=True):
    """Options for facts that the file lacks."""

    total_memory: TotalMemory = None


@takes(
    selection=Selection,
    options=ReportOptions,
    without=("by", "top", *OF_ALLOCATIONS),
)
def overview(snap: Snapshot, selection: Selection, options: ReportOptions) -> Overview:
    """Return every command's result. Parts that don't apply are left out, with a reason.

    `total_memory`: the card's memory in bytes. With `fold`, stacks that look the same are one
    group, as in `memreplay peak`. Raises UsageError if the file shows that the card is larger.
    """
    total_memory = options.total_memory
    holders = replace(selection, top=HOLDERS, fold=False)
    others = replace(holders, top=OTHERS)
    missing: dict[str, str] = {}

    def part(name: str, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except MemreplayError as error:
            missing[name] = error.brief
            return None

    def ooms() -> OomReport:
        return oom_report(snap, holders, OomOptions(most=1, total_memory=total_memory))

    folded = peak_report(snap, replace(holders, fold=True), PeakOptions())
    peak = folded
    if not selection.fold:
        peak = peak_report(snap, holders, PeakOptions())
    # If the card's size is wrong, the whole command fails, not just one part.
    oom = part("oom", ooms) if total_memory is None else ooms()
    reports: dict[str, Any] = {
        "fragmentation": part(
            "fragmentation",
            lambda: fragmentation_report(snap, others, FragmentationOptions()),
        ),
        "steps": part(
            "steps", lambda: steps_report(snap, Selection(strict=selection.strict), StepOptions())
        ),
        "leaks": part(
            "leaks",
            lambda: leaks_report(snap, others, LeaksOptions(total_memory=total_memory)),
        ),
        "oom": oom,
    }
    parts: dict[str, dict[int, Any]] = {
        name: {} if report is None else {one.device: one for one in report.devices}
        for name, report in reports.items()
    }
    parts["caught"] = _caught(snap, others)
    grouper = Grouper(snap, "category", selection.rules)
    # Advice uses the default categories, even if custom ones were given.
    plain = grouper if selection.rules is None else Grouper(snap, "category")
    devices = [
        _device(
            snap,
            seen,
            {name: found.get(seen[0].device) for name, found in parts.items()},
            missing,
            (grouper, plain),
        )
        for seen in zip(peak.devices, folded.devices, strict=True)
    ]
    return Overview(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        held_by=largest_holders(snap),
        card_memory=card_uses(snap, _oom_times(oom)),
        host_memory=host_use(snap),
        devices=tuple(sorted(devices, key=_how_bad, reverse=True)),
    )


def _caught(snap: Snapshot, selection: Selection) -> dict[int, RulesCaught]:
    """Return what the category rules match at each device's peak."""
    rules = catching(snap, selection)
    return {
        usage.replay.device: rules.of(usage, usage.peak.event_index, selection.top)
        for usage in chosen_usages(snap, selection)
    }


def _oom_times(oom: OomReport | None) -> dict[int, int | None]:
    """Return the time of each device's first failed request."""
    devices = () if oom is None else oom.devices
    return {one.device: one.ooms[0].time_us for one in devices if one.ooms}


def _how_bad(one: DeviceOverview) -> tuple[bool, int, int, int]:
    """Return a sort key for devices: those that ran out of memory first, then by peak, then by
    number.
    """
    return one.ran_out, one.reserved_peak_bytes or 0, one.peak_bytes, -one.device


def _device(
    snap: Snapshot,
    peaks: tuple[DevicePeak, DevicePeak],
    parts: dict[str, Any],
    missing: dict[str, str],
    groupers: tuple[Grouper, Grouper],
) -> DeviceOverview:
    """Build a device's part of the report. `peaks`: the peak as shown, and the folded one.
    `groupers`: one with the given rules, and one with the default rules.
    """
    peak, folded = peaks
    grouper, plain = groupers
    replay = snap.replay(peak.device)
    why = dict(missing)
    steps, leaks = parts["steps"], parts["leaks"]
    if steps is not None and steps.missing:
        why["steps"] = steps.missing_brief
    if leaks is not None and leaks.not_judged_brief:
        why["leaks"] = leaks.not_judged_brief
    reserved = replay.measure("reserved") if replay.shows_reserved else None
    whole = device_verdict(snap, replay)
    oom = parts["oom"]
    made = DeviceOverview(
        backend=replay.backend.name,
        device=peak.device,
        trusted=whole.trusted,
        exactness=peak.exactness,
        reasons=whole.reasons,
        ran_out=oom is not None and oom.ooms_total > 0,
        peak_bytes=peak.peak_bytes,
        reserved_peak_bytes=None if reserved is None else reserved.peak.bytes,
        reserved_peak_event=None if reserved is None else reserved.peak.event_index,
        reserved_exactness=None if reserved is None else verdict(snap, reserved).exactness,
        total_memory_bytes=None if oom is None else oom.total_memory_bytes,
        total_memory_known=oom is not None and oom.total_memory_known,
        usable_bytes=_usable(replay, oom),
        open_annotations=peak.annotations,
        step=_step_at(parts["steps"], peak.peak_event),
        category=_category_at(replay, peak.peak_event, grouper),
        unused=None if parts["fragmentation"] is None else _unused(replay),
        missing_parts=why,
        peak=peak,
        **parts,
    )
    for measure in MEASURES:  # advice needs the memory that the other parts' columns take
        replay.measure(measure).release()
    # Advice doesn't depend on how groups are shown.
    told = replace(made, peak=folded)
    advice = advice_of(told, facts_of(told, snap, replay, plain))
    made = replace(made, advice=tuple(replace(one, text=advice_text(one, made)) for one in advice))
    commands = next_commands(made, snap.file)
    return replace(
        made,
        commands=tuple(one.command for one in commands),
        command_reasons=tuple(one.reason for one in commands),
    )


def _usable(replay: Replay, oom: DeviceOoms | None) -> int | None:
    """Return how much of the card's memory the program can use. For an unknown card, return how
    much was observed.
    """
    if oom is None or oom.total_memory_bytes is None or not oom.total_memory_known:
        return None if oom is None else oom.total_memory_bytes
    return replay.recorded.usable_of(oom.total_memory_bytes)


def _step_at(steps: DeviceSteps | None, event: int) -> PeakStep | None:
    for one in steps.steps if steps is not None else ():
        if one.first_event <= event <= one.last_event:
            return PeakStep(one.number, one.name)
    return None


def _category_at(replay: Replay, event: int, grouper: Grouper) -> str:
    """Return the category of the memory that an event allocated."""
    if event < replay.first_event:
        return UNKNOWN
    usage = replay.measure("requested")
    after, before = (_sums(grouper, usage, at) for at in (event, event - 1))
    return next((name for name, n in after.items() if n > before.get(name, 0)), UNKNOWN)


def _sums(grouper: Grouper, usage: Usage, event: int) -> dict[str, int]:
    return {group.label: group.bytes for group in grouper.groups(usage, event, 0)[0]}


def _unused(replay: Replay) -> Unused:
    reserved, active = replay.measure("reserved").peak, replay.measure("active").peak
    return Unused(
        name="reserved",
        event_index=reserved.event_index,
        time_us=replay.time_us(reserved.event_index),
        reserved_bytes=reserved.bytes,
        active_bytes=active.bytes,
        unused_bytes=unused_bytes(replay),
    )
