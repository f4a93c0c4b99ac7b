"""Format plans as text."""

from __future__ import annotations

from msgspec import UNSET

from memreplay.commands.plan.result import (
    DevicePlans,
    Planned,
    PlannedLever,
    PlanReport,
    Verified,
)
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
from memreplay.render.reasons import notes_of
from memreplay.render.units import count, counted, size

LEAST_SHARE = 0.005  # of a step's time
PRICES = {
    "free": "nothing",
    "time": "time",
    "results": "other results",
    "hardware": "more GPUs",
}
EXACTNESS = {
    "exact": "exact",
    "usually_exact": "estimated, usually exact",
    "estimated": "estimated",
}


def plan_document(report: PlanReport, *, show_all: bool = False) -> Document:
    """Build a section per device. `show_all`: also show memory against cost."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    sections = [_section(device, show_all=show_all) for device in report.devices]
    return (*blocks, *device_blocks(sections))


def _section(device: DevicePlans, *, show_all: bool) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(device)), Pairs(_facts(device))]
    for number, plan in enumerate(device.plans, 1):
        blocks += _plan(number, plan)
    if show_all and device.tradeoffs:
        blocks.append(_tradeoffs(device))
    return [*blocks, *_notes(device), *notes_of(device)]


def _headline(device: DevicePlans) -> tuple[str, ...]:
    goal, name = size(device.total_memory_bytes), f"device {device.device}"
    if device.fits:
        spare = device.program_memory_bytes - device.reserved_peak_bytes
        if device.verified is not None:
            spare = device.verified.spare_bytes
        return (f"{name}: fits {goal} already", f"{size(max(spare, 0))} to spare")
    if device.plans:
        first = device.plans[0]
        changes = counted(len(first.levers), "change")
        sure = first.verified or first.exactness == first.reserved_exactness == "exact"
        fits = "fits" if sure else "should fit"
        return (f"{name}: {fits} {goal} with {changes}", f"{size(first.spare_bytes)} to spare")
    if device.floor.bytes > device.program_memory_bytes:
        needed = f"{_parts(device)} already need {size(device.floor.bytes)}"
        return (f"{name}: nothing tried makes it fit {goal}", needed)
    return (f"{name}: nothing tried makes it fit {goal}",)


def _facts(device: DevicePlans) -> tuple[tuple[str, str], ...]:
    requested, reserved = size(device.requested_peak_bytes), size(device.reserved_peak_bytes)
    usable = size(device.program_memory_bytes)
    context = ""
    if device.context_bytes:
        context = f", after {size(device.context_bytes)} for CUDA itself"
    return (
        ("card", f"{size(device.total_memory_bytes)}: {usable} for the program{context}"),
        ("recorded", f"{requested} requested and {reserved} reserved at the peaks"),
        *((("verified", _measured(device.verified)),) if device.verified else ()),
        *(
            (("at least", f"{size(device.floor.bytes)} for {_parts(device)}"),)
            if device.floor.bytes
            else ()
        ),
    )


def _parts(device: DevicePlans) -> str:
    names = list(device.floor.category_bytes)
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _plan(number: int, plan: Planned) -> list[Block]:
    what = " + ".join(one.title for one in plan.levers)
    words = f"plan {number}: {what}"
    rows = [
        *_peaks(plan),
        ("spare", size(plan.spare_bytes)),
        ("cost", _cost(plan)),
    ]
    if retries := plan.simulated.alloc_retries:
        rows.append(("retries", f"{count(retries)}, each of which waits for the GPU"))
    if changes := _changes(plan):
        tried = f"memreplay dryrun {changes} -- python train.py"
        rows.append(("options", changes) if plan.verified else ("try", tried))
    rows += [("edit", _edit(one)) for one in plan.levers]
    return [Heading((words,)), Pairs(tuple(rows))]


def _peaks(plan: Planned) -> list[tuple[str, str]]:
    requested = f"{size(plan.requested_peak_bytes)} requested"
    reserved = f"{size(plan.simulated.reserved_peak_bytes)} reserved"
    if plan.verified is None:
        exactness = EXACTNESS[plan.exactness]
        return [("peak", f"{requested} ({exactness}), {reserved} ({plan.reserved_exactness})")]
    return [
        ("verified", _measured(plan.verified)),
        ("predicted", f"{requested}{_error(plan.verified.error_share)}, {reserved}"),
    ]


def _measured(verified: Verified) -> str:
    fits = "fits" if verified.exact else "fits, as far as is known"
    requested, reserved = size(verified.requested_peak_bytes), size(verified.reserved_peak_bytes)
    return f"{fits}: {requested} requested, {reserved} reserved"


def _error(share: float) -> str:
    if not share:
        return " (exact)"
    return f" ({abs(share):.2%} too {'high' if share > 0 else 'low'})"


def _cost(plan: Planned) -> str:
    return "; ".join(f"{_time(one.time_share)}: {one.cost_reason}" for one in plan.levers)


def _time(share: float | None) -> str:
    if share is None:
        return "an unknown time"
    return f"{share:.0%} more time" if share >= LEAST_SHARE else "no time"


def _changes(plan: Planned) -> str:
    """Return the options of dryrun with which the plan can be tried; "" if it needs edits."""
    words = []
    for one in plan.levers:
        if one.how == "edit":
            return ""
        given = f"{one.name}={one.argument}" if one.argument else one.name
        words.append(f"--set {one.argument}" if one.how == "set" else f"--change '{given}'")
    return " ".join(words)


def _edit(one: PlannedLever) -> str:
    if one.frame is UNSET:
        return one.edit
    return f"{one.edit}  ({one.frame.file}:{one.frame.line})"


def _tradeoffs(device: DevicePlans) -> Table:
    rows = tuple(
        Row(
            (
                size(one.requested_peak_bytes),
                "?" if one.time_share is None else f"{one.time_share:.0%}",
                PRICES[one.price],
                ", ".join(one.lever_names),
            )
        )
        for one in device.tradeoffs
    )
    return Table(("peak", "time", "costs", "levers"), ("right", "right", "left", "left"), rows)


def _notes(device: DevicePlans) -> list[Block]:
    found: list[Block] = []
    guesses = dict.fromkeys(
        f"{one.title}: {one.estimate_reason}"
        for plan in device.plans
        for one in plan.levers
        if one.estimate_reason and plan.verified is None
    )
    if guesses:
        found.append(Note(f"estimated: {'; '.join(guesses)}"))
    found += [
        Note(
            f"not shown: {' + '.join(one.lever_names)}: predicted to fit with"
            f" {size(one.requested_peak_bytes)} requested and {size(one.reserved_peak_bytes)}"
            f" reserved, but in a dry run: {one.reason}"
        )
        for one in device.failed_plans
    ]
    if not device.modules_known and not device.fits:
        found.append(
            Note(
                "modules weren't recorded, so recomputing some of them wasn't tried; record with"
                " memreplay.record or a dry run"
            )
        )
    if device.ran_out:
        found.append(
            Note(
                "a request failed in the recording; whether what follows fits isn't known",
                "warning",
            )
        )
    return found
