"""Format leaks as text."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.groups.ways import title_of
from memreplay.analysis.leaks.records import DOUBTS, DeviceLeaks, GrownGroup, RunsOut
from memreplay.analysis.leaks.stackless import IN_OPTIMIZER_STEP
from memreplay.analysis.leaks.trained import is_state
from memreplay.commands.leaks.result import LeaksReport
from memreplay.commands.steps.text import guess_notes, source_text
from memreplay.render.document import (
    Align,
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
from memreplay.render.filters import filter_pairs
from memreplay.render.holders import coded_row, distinguish_rows
from memreplay.render.reasons import notes_of
from memreplay.render.recorded_holders import held_by_lines
from memreplay.render.trust import trust_label
from memreplay.render.units import count, counted, duration, signed_size, size
from memreplay.snapshot.model import By

LEAST_ERROR = 0.05
LEAST_ODDS = 3  # minimum odds for reporting a leak
MOST_ODDS = 1000  # maximum odds shown
ONCE_SHOWN = 5  # maximum number of rows for memory that grew once


def leaks_document(report: LeaksReport, *, all_frames: bool = False) -> Document:
    """Build a section per device: whether and how fast memory leaks, the code, and what grew once.

    `all_frames`: show full stacks.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    blocks += device_blocks([_section(device, report, all_frames) for device in report.devices])
    return tuple(blocks)


def _section(device: DeviceLeaks, report: LeaksReport, all_frames: bool) -> list[Block]:
    name = f"device {device.device}"
    if device.step_source is None:
        return [Heading((f"{name}: can't look for leaks",)), Note(device.not_judged_reason or "")]
    blocks: list[Block] = [Heading((f"{name}: {_headline(device, report)}",))]
    blocks.append(Pairs(tuple(_pairs(device, report))))
    if device.leaks:
        blocks.append(_leaks_table(device, report, all_frames))
    elif device.whole_bytes_per_step:
        blocks.append(
            Note(
                f"memory grows by {_rate(device, device.whole_bytes_per_step)} overall, but no"
                f" single {_one(report)} grows throughout: different ones grow in turn",
                "warning",
            )
        )
    if device.once:
        blocks.append(_once_table(device, report, all_frames))
        grew = device.end_bytes - device.start_bytes
        back = device.once_bytes + device.leak_bytes - grew
        if back > max(grew, 0):
            steps = not device.step_source.is_whole
            when, since = (
                ("in the same steps", "first step") if steps else ("meanwhile", "recording")
            )
            blocks.append(
                Note(
                    f"{size(back)} was freed {when}, mostly memory from before the {since}, so this"
                    " table also lists its replacements"
                )
            )
    blocks += [
        Note(
            f"{one.label} may leak: the odds are {odds_text(one.odds)}, and it takes"
            f" {odds_text(LEAST_ODDS)} to call it a leak; record more steps"
        )
        for one in device.once[:ONCE_SHOWN]
        if one.odds >= 1
    ]
    blocks += _notes(device, report)
    if device.unless == "late_state":
        blocks.append(
            Note(
                "without stacks, a leak can't be distinguished from lazily created optimizer state,"
                " as for layers that were just unfrozen or experts on first use. Record with stacks"
                " to see which it is"
            )
        )
    if device.unless == "single_pass":
        blocks.append(
            Note(
                "nothing marks steps here. A single pass that keeps its results grows the same way:"
                " for example a forward pass, or loading a model. If this recording has"
                " several steps, name them with --step annotation=NAME"
            )
        )
    if not _is_whole(device):
        blocks += guess_notes(device.step_source)
    blocks += notes_of(device)
    return blocks


def _unit(device: DeviceLeaks) -> str:
    return "window" if device.by_windows else "step"


def _is_whole(device: DeviceLeaks) -> bool:
    """Return whether no steps were found, so that the whole recording is one step."""
    source = device.step_source
    return source is not None and source.is_whole


def _rate(device: DeviceLeaks, rate: int) -> str:
    return f"{size(rate)} a {_unit(device)}"


def _one(report: LeaksReport) -> str:
    """Return the noun for a row: `stack` or `group`."""
    return "stack" if report.by == "stack" else "group"


def leaking_noun(device: DeviceLeaks, by: By = "stack") -> str:
    """Return the noun for what leaks: `group` for allocations without a stack."""
    stacks = by == "stack" and any(one.frames for one in device.leaks)
    return "stack" if stacks else "group"


def _headline(device: DeviceLeaks, report: LeaksReport) -> str:
    if _is_whole(device):
        return "no steps were found, so leaks can't be judged"
    if not device.judged:
        return f"{counted(device.step_count, 'step')}, too few to judge leaks"
    if device.unless == "late_state":
        grows = device.leak_bytes_per_step or device.whole_bytes_per_step
        return f"memory grows by {_rate(device, grows)}: {DOUBTS[device.unless].words}"
    if device.leaks_total:
        groups = counted(device.leaks_total, leaking_noun(device, report.by))
        one = "s" * (device.leaks_total == 1)
        if device.unless:
            more = f"{size(device.leak_bytes_per_step)} more each {_unit(device)}"
            return f"{groups} keep{one} {more}: {DOUBTS[device.unless].words}"
        return f"{groups} leak{one} {_rate(device, device.leak_bytes_per_step)}"
    if device.whole_bytes_per_step:
        return f"memory grows, but no {_one(report)} leaks"
    steps = counted(device.step_count, "step")
    none = f"no leak in {steps}, which is too few to be sure" if device.unsure else "no leak"
    if device.by_windows:
        none = f"no {_one(report)} grows throughout the recording"
    if device.growing_bytes_per_step:
        more = size(device.growing_bytes_per_step)
        return f"{none}, but each {_unit(device)} needs {more} more than the last"
    return none


def _steps_text(device: DeviceLeaks) -> str:
    """Return the number of steps, how they were found, and which ones at the end aren't judged."""
    assert device.step_source is not None
    found = device.step_count + device.exit_steps
    words = f"{count(found)}, {source_text(device.step_source)}"
    if not device.exit_steps:
        return words
    which = f"{_unit(device)} {count(found)} isn't"
    if device.exit_steps > 1:
        which = f"{_unit(device)}s {count(device.step_count + 1)} to {count(found)} aren't"
    return f"{words}; {which} judged, because memory falls there, as when a program exits"


def _pairs(device: DeviceLeaks, report: LeaksReport) -> list[tuple[str, str]]:
    unit = _unit(device)
    if _is_whole(device):
        grew = signed_size(device.end_bytes - device.start_bytes)
        live = f"{size(device.start_bytes)} at the start, {size(device.end_bytes)} at the end"
        return [
            ("measure", f"{device.measure}, {trust_label(device)}"),
            ("live", f"{live}: {grew}"),
            *_part_pairs(report),
        ]
    if not device.judged:
        grew = signed_size(device.end_bytes - device.start_bytes)
        last = f"the last of {count(device.step_count)}" if device.step_count > 1 else "it"
        live = f"{size(device.start_bytes)} before the first {unit}, {size(device.end_bytes)} after"
        return [
            ("measure", f"{device.measure}, {trust_label(device)}"),
            (f"{unit}s", _steps_text(device)),
            ("live", f"{live} {last}: {grew}"),
            *_part_pairs(report),
        ]
    later = device.step_count - device.warm_up_steps
    warm = f"{unit} {count(device.warm_up_steps)}"
    last = f"{unit} {count(device.step_count)}" if device.exit_steps else "the last"
    live = (
        f"{size(device.start_bytes)} before the first {unit}, {size(device.warm_bytes)} after"
        f" {warm}, {size(device.end_bytes)} after {last}"
    )
    growth = (
        f"{signed_size(device.warm_bytes - device.start_bytes)} up to {warm}, not judged;"
        f" {signed_size(device.end_bytes - device.warm_bytes)} in the {count(later)} after it"
    )
    if device.leak_bytes or not device.by_windows:
        part = "from leaks" if device.unless is None else "as below"
        growth += f", {size(device.leak_bytes)} of it {part}"
    pairs = [
        ("measure", f"{device.measure}, {trust_label(device)}"),
        (f"{unit}s", _steps_text(device)),
        ("live", live),
        ("growth", growth),
    ]
    pairs += _part_pairs(report)
    old = (
        f"{counted(device.old_count, 'allocation')} of {size(device.old_bytes)}, from after {warm}"
        f", still live {counted(report.older_than_steps, unit)} later and after {last}"
    )
    pairs.append(("old", old if device.old_count else "none"))
    if device.runs_out is not None:
        pairs.append(("runs out", _runs_out(device.runs_out, unit)))
    return pairs


def _part_pairs(report: LeaksReport) -> list[tuple[str, str]]:
    pairs = []
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    return [*pairs, *filter_pairs(report.filters)]


def _runs_out(found: RunsOut, unit: str) -> str:
    total = f"{size(found.usable_bytes)} ({_whose(found)})"
    if found.step_count == 0:
        return f"now: the peak of {size(found.peak_bytes)} already fills {total}"
    after = f"in {counted(found.step_count, f'more {unit}')}"
    if found.after_us is not None:
        after += f", about {duration(found.after_us)}"
    return f"{after}, at the peak of {size(found.peak_bytes)} in {total}"


def _whose(found: RunsOut) -> str:
    if found.total_memory_source == "oom":
        return "free and reserved at an oom event"
    card = "the card as given" if found.given else "the recording's card"
    context = found.total_memory_bytes - found.usable_bytes
    if not context:
        return card
    total = size(found.total_memory_bytes)
    return f"{card}, {total}, less an estimated {size(context)} for CUDA itself"


def _leaks_table(device: DeviceLeaks, report: LeaksReport, all_frames: bool) -> Table:
    unit = _unit(device)
    rows = [
        _place(
            one,
            report,
            all_frames,
            _with_error(one),
            odds_text(one.odds),
            signed_size(one.growth_bytes),
            size(one.end_bytes),
            f"{count(one.rises)} of {count(device.step_count - one.since_step)}",
            count(one.old_count),
        )
        for one in device.leaks
    ]
    rows = [
        replace(row, below=(*row.below, *held_by_lines(one.holders, one.end_bytes)))
        for row, one in zip(distinguish_rows(rows, device.leaks), device.leaks, strict=True)
    ]
    more = device.leaks_total - len(device.leaks)
    if more:
        rate = device.leak_bytes_per_step - sum(one.bytes_per_step for one in device.leaks)
        grew = device.leak_bytes - sum(one.growth_bytes for one in device.leaks)
        words = f"{counted(more, f'more {_one(report)}')} (--top 0 shows all)"
        rows.append(Row((size(rate), "", signed_size(grew), "", "", "", words), style="dim"))
    titles = [f"{'leaks' if device.unless is None else 'grows'} a {unit}", "odds", "growth"]
    titles += ["live", "grew in", "old"]
    spare = (5, 4, 3)
    if device.unless == "late_state":  # the odds assume that growth continues
        rows = [replace(row, cells=(row.cells[0], *row.cells[2:])) for row in rows]
        titles.remove("odds")
        spare = (4, 3, 2)
    aligned: list[Align] = ["right"] * len(titles)
    return Table((*titles, title_of(report.by)), (*aligned, "left"), tuple(rows), spare=spare)


def _with_error(one: GrownGroup) -> str:
    """Return text such as `13.0 KiB ±37%`, without the error if it's below 5%."""
    share = one.bytes_per_step_error / one.bytes_per_step if one.bytes_per_step else 0.0
    return size(one.bytes_per_step) + (f" ±{share:.0%}" if share >= LEAST_ERROR else "")


def odds_text(odds: float) -> str:
    """Return text such as `9:1`, the odds that a group leaks rather than stops growing."""
    return f">{count(MOST_ODDS)}:1" if odds > MOST_ODDS else f"{count(int(odds))}:1"


def _once_table(device: DeviceLeaks, report: LeaksReport, all_frames: bool) -> Table:
    shown = device.once[:ONCE_SHOWN]
    rows = [
        _place(
            one,
            report,
            all_frames,
            signed_size(one.growth_bytes),
            count(one.until_step) if one.stopped else "not yet",
            size(one.end_bytes),
            count(one.old_count),
        )
        for one in shown
    ]
    rows = distinguish_rows(rows, shown)
    more = device.once_total - len(shown)
    if more:
        rest = device.once_bytes - sum(one.growth_bytes for one in shown)
        words = f"{counted(more, f'more {_one(report)}')} (--json --top 0)"
        rows.append(Row((signed_size(rest), "", "", "", words), style="dim"))
    if _is_whole(device):  # a single step doesn't show whether growth stops
        rows = [replace(row, cells=(row.cells[0], *row.cells[2:])) for row in rows]
        return Table(
            ("grew", "live", "old", title_of(report.by)),
            (*("right",) * 3, "left"),
            tuple(rows),
            spare=(2,),
        )
    grew = "grew, no leak" if device.judged and not device.by_windows else "grew"
    titles = (grew, f"stopped at {_unit(device)}", "live", "old")
    return Table(
        (*titles, title_of(report.by)), (*("right",) * 4, "left"), tuple(rows), spare=(3, 1)
    )


def grew_late(one: GrownGroup, device: DeviceLeaks) -> bool:
    """Return whether the growth is state of parameters that began training after the warm-up."""
    late = not one.stopped or one.until_step > device.warm_up_steps
    state = is_state(one.frames) or one.label == IN_OPTIMIZER_STEP
    return device.judged and late and state


def _place(one: GrownGroup, report: LeaksReport, all_frames: bool, *numbers: str) -> Row:
    return coded_row(numbers, one, report.by, all_frames=all_frames)


def _notes(device: DeviceLeaks, report: LeaksReport) -> list[Block]:
    assert device.step_source is not None
    notes: list[Block] = []
    if device.by_windows:
        notes.append(
            Note(
                f"windows aren't steps: a {_one(report)} leaks here if it grows throughout the"
                " recording, even within a single step. A leak at only a few moments goes unnoticed"
            )
        )
    elif device.not_judged_reason or device.unsure:
        notes.append(Note(device.not_judged_reason or device.unsure or ""))
    elif device.step_count - device.warm_up_steps < 10:
        steps = counted(device.step_count, "step")
        notes.append(Note(f"{steps} are few: with more of them, the verdict would be more certain"))
    if any(grew_late(one, device) for one in device.once):
        notes.append(
            Note(
                "an optimizer creates state once for each parameter; what it created in later steps"
                " is for layers that were unfrozen or added, and stops when all are trained"
            )
        )
    if device.growing_bytes_per_step:
        more = size(device.growing_bytes_per_step)
        notes.append(
            Note(
                f"each {_unit(device)} needs {more} more than the last and frees it again:"
                " a growing batch or sequence, not a leak"
            )
        )
    notes += [
        Note(
            f"{one.label} is one allocation, replaced by a larger one each"
            f" {_unit(device)}, as `total = torch.cat([total, new])` does"
        )
        for one in device.leaks[:ONCE_SHOWN]
        if one.replaced
    ]
    notes += [
        Note(
            f"the rate of {one.label} is net: other {_one(report)}s release"
            f" {_rate(device, one.made_up_bytes_per_step)} meanwhile"
        )
        for one in device.leaks[:ONCE_SHOWN]
        if one.made_up_bytes_per_step
    ]
    if device.step_source.taken_together > 1:
        together = counted(device.step_source.taken_together, "repetition")
        notes.append(Note(f"each step here is {together}, because there are so many"))
    if device.grows and device.unless is None and device.runs_out is None:
        steps = f"{_unit(device)}s"
        notes.append(
            Note(f"give --total-memory 80GiB to see after how many {steps} that card is full")
        )
    return notes
