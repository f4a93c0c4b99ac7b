"""One page about a snapshot: what the other commands find, once, over the same replay."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.caught.catching import catching
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection, TotalMemory
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.oom.find import oom_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.report.advice import advice_of, facts_of
from memreplay.commands.report.advice_words import advice_words, next_commands
from memreplay.commands.report.result import DeviceOverview, Overview, PeakStep, Unused
from memreplay.commands.steps.find import steps_report
from memreplay.declared import Options
from memreplay.errors import MemreplayError
from memreplay.snapshot.recorded_allocator import unused_bytes

if TYPE_CHECKING:
    from memreplay.commands.oom.result import DeviceOoms, OomReport
    from memreplay.commands.peak.result import DevicePeak
    from memreplay.commands.steps.result import DeviceSteps
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

HOLDERS = 5  # groups that hold the memory at the peak
OTHERS = 3  # rows of the other parts
# What errors begin with, which say why a whole command has no answer.
_BEGINNINGS = ("cannot look for leaks: ", "no steps: ")
_REMARK = re.compile(r" \([^()]*\)")

T = TypeVar("T")


class ReportOptions(Options, frozen=True):
    """What the file doesn't say."""

    total_memory: TotalMemory = None


@takes(selection=Selection, options=ReportOptions)
def overview(snap: Snapshot, selection: Selection, options: ReportOptions) -> Overview:
    """What each command says of the snapshot, a part that does not apply left out with the reason.

    `total_memory` is the card's, in bytes. With `fold` stacks that look alike to people are one
    holder, as in `memreplay peak`. Raises UsageError where the file says that the card has
    more than that.
    """
    total_memory = options.total_memory
    holders = replace(selection, top=HOLDERS, fold=False)
    others = replace(holders, top=OTHERS)
    missing: dict[str, str] = {}

    def part(name: str, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except MemreplayError as error:
            missing[name] = _reason(str(error))
            return None

    def ooms() -> OomReport:
        return oom_report(snap, holders, most=1, total_memory=total_memory)

    folded = peak_report(snap, holders, fold=True)
    peak = folded
    if not selection.fold:
        peak = peak_report(snap, holders)
    # That the card is larger than was said is an error of the command, not of one part.
    oom = part("oom", ooms) if total_memory is None else ooms()
    reports: dict[str, Any] = {
        "fragmentation": part(
            "fragmentation",
            lambda: fragmentation_report(snap, others),
        ),
        "steps": part("steps", lambda: steps_report(snap, strict=selection.strict)),
        "leaks": part(
            "leaks",
            lambda: leaks_report(snap, others, total_memory=total_memory),
        ),
        "oom": oom,
    }
    grouper = Grouper(snap, "category", selection.rules)
    # Advice goes by what PyTorch's code is for, whatever categories of their own people have.
    plain = grouper if selection.rules is None else Grouper(snap, "category")
    rules = catching(snap, others)
    parts: dict[str, dict[int, Any]] = {
        name: {} if report is None else {one.device: one for one in report.devices}
        for name, report in reports.items()
    }
    parts["categories"] = {
        usage.replay.device: rules.of(usage, usage.peak.event_index, OTHERS)
        for usage in chosen_usages(snap, others)
    }
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
        devices=tuple(sorted(devices, key=_how_bad, reverse=True)),
    )


def _how_bad(one: DeviceOverview) -> tuple[bool, int, int, int]:
    """What ran out of memory is worst, then what went highest; of equal ones the first device."""
    return one.ran_out, one.reserved_peak_bytes, one.peak_bytes, -one.device


def _device(
    snap: Snapshot,
    peaks: tuple[DevicePeak, DevicePeak],
    parts: dict[str, Any],
    missing: dict[str, str],
    groupers: tuple[Grouper, Grouper],
) -> DeviceOverview:
    """What is found of a device; its peak as it's shown and folded, the groupers with the rules
    that were given and the default ones."""
    peak, folded = peaks
    grouper, plain = groupers
    replay = snap.replay(peak.device)
    why = dict(missing)
    steps, leaks = parts["steps"], parts["leaks"]
    if steps is not None and steps.missing:
        why["steps"] = _reason(steps.missing)
    if leaks is not None and leaks.not_judged:
        why["leaks"] = _reason(leaks.not_judged)
    reserved = replay.measure("reserved")
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
        reserved_peak_bytes=reserved.peak.bytes,
        reserved_peak_event=reserved.peak.event_index,
        reserved_exactness="exact" if verdict(snap, reserved).exact else "estimated",
        total_bytes=None if oom is None else oom.total_bytes,
        total_known=oom is not None and oom.total_known,
        usable_bytes=_usable(replay, oom),
        annotations=peak.annotations,
        step=_step_at(parts["steps"], peak.event_index),
        category=_category_at(replay, peak.event_index, grouper),
        unused=None if parts["fragmentation"] is None else _unused(replay),
        missing=why,
        peak=peak,
        **parts,
    )
    # Advice is the same, however its holders are shown.
    told = replace(made, peak=folded)
    advice = advice_of(told, facts_of(told, snap, replay, plain))
    made = replace(made, advice=tuple(replace(one, text=advice_words(one, made)) for one in advice))
    commands = next_commands(made, snap.file)
    return replace(
        made,
        commands=tuple(one.command for one in commands),
        command_reasons=tuple(one.reason for one in commands),
    )


def _usable(replay: Replay, oom: DeviceOoms | None) -> int | None:
    """What of the card the program could have; what was seen of one that is not known, it had."""
    if oom is None or oom.total_bytes is None or not oom.total_known:
        return None if oom is None else oom.total_bytes
    return replay.recorded.usable_of(oom.total_bytes)


def _reason(text: str) -> str:
    """Why there is no answer, without how the command would be asked otherwise."""
    for beginning in _BEGINNINGS:
        text = text.removeprefix(beginning)
    text = text.partition(";")[0].partition(", and the recording may be")[0]
    return _REMARK.sub("", text)


def _step_at(steps: DeviceSteps | None, event: int) -> PeakStep | None:
    for one in steps.steps if steps is not None else ():
        if one.first_event <= event <= one.last_event:
            return PeakStep(one.index, one.name)
    return None


def _category_at(replay: Replay, event: int, grouper: Grouper) -> str:
    """The category of what an event allocated: the one that has more than before it."""
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
