"""Writes what leaks as a document for people."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.groups.ways import title_of
from memreplay.commands.leaks.result import DeviceLeaks, GrownGroup, LeaksReport, RunsOut
from memreplay.commands.leaks.trained import is_state
from memreplay.commands.steps.text import guess_notes, source_words
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.filters import filter_pairs
from memreplay.render.holders import coded_row, told_apart
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import count, counted, duration, signed_size, size

LEAST_ERROR = 0.05
LEAST_ODDS = 3  # of what is called a leak
MOST_ODDS = 1000  # nobody needs more
ONCE_SHOWN = 5  # rows of what grew once: it is told apart from leaks, and no more


def leaks_document(report: LeaksReport, *, all_frames: bool = False) -> Document:
    """A section a device: whether it leaks and how fast, who does, and what grew once.

    With `all_frames` whole stacks are shown.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    for device in report.devices:
        blocks += _section(device, report, all_frames)
    return tuple(blocks)


def _section(device: DeviceLeaks, report: LeaksReport, all_frames: bool) -> list[Block]:
    name = f"device {device.device}"
    if device.source is None:
        return [Heading((f"{name}: cannot look for leaks",)), Note(device.not_judged or "")]
    blocks: list[Block] = [Heading((f"{name}: {_headline(device, report)}",))]
    blocks.append(Pairs(tuple(_pairs(device, report))))
    if device.leaks:
        blocks.append(_leaks_table(device, report, all_frames))
    elif device.whole_bytes_per_step:
        blocks.append(
            Note(
                f"memory as a whole grows by {_rate(device, device.whole_bytes_per_step)}, but no"
                f" single {_one(report)} grows all along: different ones take turns",
                "warning",
            )
        )
    if device.once:
        blocks.append(_once_table(device, report, all_frames))
        grew = device.end_bytes - device.start_bytes
        back = device.once_bytes + device.leak_bytes - grew
        if back > max(grew, 0):
            blocks.append(
                Note(
                    f"{size(back)} was freed meanwhile, mostly from before the first step, so this"
                    " table also has what replaced it"
                )
            )
    blocks += [
        Note(
            f"{one.label} may leak: the odds are {odds_words(one.odds)}, and it takes"
            f" {odds_words(LEAST_ODDS)} to call it a leak; record more steps"
        )
        for one in device.once[:ONCE_SHOWN]
        if one.odds >= 1
    ]
    blocks += _notes(device, report)
    if device.guessed and (device.leaks_total or device.whole_bytes_per_step):
        blocks.append(
            Note(
                "nothing marks steps here. A single pass that keeps what it makes grows in the same"
                " way: a forward pass, a model that is loaded, one text that is generated. If this"
                " recording is of several steps, name them with --step-annotation"
            )
        )
    blocks += guess_notes(device.source)
    blocks += notes_of(device)
    return blocks


def _unit(device: DeviceLeaks) -> str:
    assert device.source is not None
    return "window" if device.source.kind == "windows" else "step"


def _is_whole(device: DeviceLeaks) -> bool:
    """Whether no steps were found, so that all which was read is taken for one."""
    return not device.judged and device.source is not None and device.source.kind == "whole"


def _rate(device: DeviceLeaks, rate: int) -> str:
    return f"{size(rate)} a {_unit(device)}"


def _one(report: LeaksReport) -> str:
    """What a row stands for."""
    return "stack" if report.by == "stack" else "group"


def _headline(device: DeviceLeaks, report: LeaksReport) -> str:
    if _is_whole(device):
        return "no steps were found, so leaks can't be judged"
    if not device.judged:
        return f"{counted(device.steps, 'step')}, too few to tell a leak"
    if device.leaks_total:
        groups = counted(device.leaks_total, _one(report))
        one = "s" * (device.leaks_total == 1)
        if device.guessed:
            more = f"{size(device.leak_bytes_per_step)} more each {_unit(device)}"
            return f"{groups} keep{one} {more}: a leak, unless this is a single pass"
        return f"{groups} leak{one} {_rate(device, device.leak_bytes_per_step)}"
    if device.whole_bytes_per_step:
        return f"memory grows, but no {_one(report)} leaks"
    few = f" in {counted(device.steps, 'step')}, which are few" if device.unsure else ""
    if device.growing_bytes_per_step:
        more = size(device.growing_bytes_per_step)
        return f"no leak{few}, but each {_unit(device)} needs {more} more than the last"
    return f"no leak{few}"


def _pairs(device: DeviceLeaks, report: LeaksReport) -> list[tuple[str, str]]:
    assert device.source is not None
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
        last = f"the last of {count(device.steps)}" if device.steps > 1 else "it"
        live = f"{size(device.start_bytes)} before the first {unit}, {size(device.end_bytes)} after"
        return [
            ("measure", f"{device.measure}, {trust_label(device)}"),
            (f"{unit}s", f"{count(device.steps)}, {source_words(device.source)}"),
            ("live", f"{live} {last}: {grew}"),
            *_part_pairs(report),
        ]
    later = device.steps - device.warm_up_steps
    warm = f"{unit} {count(device.warm_up_steps)}"
    live = (
        f"{size(device.start_bytes)} before the first {unit}, {size(device.warm_bytes)} after"
        f" {warm}, {size(device.end_bytes)} after the last"
    )
    growth = (
        f"{signed_size(device.warm_bytes - device.start_bytes)} up to {warm}, which is not judged;"
        f" {signed_size(device.end_bytes - device.warm_bytes)} in the {count(later)} after it,"
        f" {size(device.leak_bytes)} of it from leaks"
    )
    pairs = [
        ("measure", f"{device.measure}, {trust_label(device)}"),
        (f"{unit}s", f"{count(device.steps)}, {source_words(device.source)}"),
        ("live", live),
        ("growth", growth),
    ]
    pairs += _part_pairs(report)
    old = (
        f"{counted(device.old_count, 'allocation')} of {size(device.old_bytes)}, made after {warm}"
        f" and still live {counted(report.older_than_steps, unit)} later and at the end"
    )
    pairs.append(("old", old if device.old_count else "none"))
    if device.runs_out is not None:
        pairs.append(("runs out", _runs_out(device.runs_out, unit)))
    return pairs


def _part_pairs(report: LeaksReport) -> list[tuple[str, str]]:
    pairs = []
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} alone"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} alone"))
    return [*pairs, *filter_pairs(report.filters)]


def _runs_out(found: RunsOut, unit: str) -> str:
    total = f"{size(found.usable_bytes)} ({_whose(found)})"
    if found.steps == 0:
        return f"now: the peak of {size(found.peak_bytes)} leaves nothing of {total}"
    after = f"in {counted(found.steps, f'more {unit}')}"
    if found.after_us is not None:
        after += f", about {duration(found.after_us)}"
    return f"{after}, at the peak of {size(found.peak_bytes)} in {total}"


def _whose(found: RunsOut) -> str:
    if found.source == "oom":
        return "free and reserved at an oom event"
    card = "the card as given" if found.given else "the recording's card"
    context = found.total_bytes - found.usable_bytes
    if not context:
        return card
    return f"{card}, {size(found.total_bytes)}, less an estimated {size(context)} for CUDA itself"


def _leaks_table(device: DeviceLeaks, report: LeaksReport, all_frames: bool) -> Table:
    unit = _unit(device)
    rows = [
        _place(
            one,
            report,
            all_frames,
            _with_error(one),
            odds_words(one.odds),
            signed_size(one.growth_bytes),
            size(one.end_bytes),
            f"{count(one.rises)} of {count(device.steps - one.since_step)}",
            count(one.old_count),
        )
        for one in device.leaks
    ]
    rows = told_apart(rows, device.leaks)
    more = device.leaks_total - len(device.leaks)
    if more:
        rate = device.leak_bytes_per_step - sum(one.bytes_per_step for one in device.leaks)
        grew = device.leak_bytes - sum(one.growth_bytes for one in device.leaks)
        words = f"{counted(more, f'more {_one(report)}')} (--top 0 shows all)"
        rows.append(Row((size(rate), "", signed_size(grew), "", "", "", words), style="dim"))
    titles = (f"leaks a {unit}", "odds", "growth", "live", "grew in", "old")
    return Table(
        (*titles, title_of(report.by)), (*("right",) * 6, "left"), tuple(rows), spare=(5, 4, 3)
    )


def _with_error(one: GrownGroup) -> str:
    """`13.0 KiB ±37%`, where it is not sure to a twentieth."""
    share = one.bytes_per_step_error / one.bytes_per_step if one.bytes_per_step else 0.0
    return size(one.bytes_per_step) + (f" ±{share:.0%}" if share >= LEAST_ERROR else "")


def odds_words(odds: float) -> str:
    """`9:1`: that it leaks, and does not stop."""
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
    rows = told_apart(rows, shown)
    more = device.once_total - len(shown)
    if more:
        rest = device.once_bytes - sum(one.growth_bytes for one in shown)
        words = f"{counted(more, f'more {_one(report)}')} (--format json --top 0)"
        rows.append(Row((signed_size(rest), "", "", "", words), style="dim"))
    if _is_whole(device):  # nothing stops at the one step
        rows = [replace(row, cells=(row.cells[0], *row.cells[2:])) for row in rows]
        return Table(
            ("grew", "live", "old", title_of(report.by)),
            (*("right",) * 3, "left"),
            tuple(rows),
            spare=(2,),
        )
    grew = "grew, no leak" if device.judged else "grew"
    titles = (grew, f"stopped at {_unit(device)}", "live", "old")
    return Table(
        (*titles, title_of(report.by)), (*("right",) * 4, "left"), tuple(rows), spare=(3, 1)
    )


def grew_late(one: GrownGroup, device: DeviceLeaks) -> bool:
    """Whether it is state of parameters that began to be trained after the warm-up."""
    late = not one.stopped or one.until_step > device.warm_up_steps
    return device.judged and late and is_state(one.frames)


def _place(one: GrownGroup, report: LeaksReport, all_frames: bool, *numbers: str) -> Row:
    return coded_row(numbers, one, report.by, all_frames=all_frames)


def _notes(device: DeviceLeaks, report: LeaksReport) -> list[Block]:
    assert device.source is not None
    notes: list[Block] = []
    if device.source.kind == "windows":
        notes.append(
            Note(
                "windows stand in for steps: what grows throughout the recording counts as a"
                " leak, even if the recording is part of a single step"
            )
        )
    elif device.not_judged or device.unsure:
        notes.append(Note(device.not_judged or device.unsure or ""))
    elif device.steps - device.warm_up_steps < 10:
        notes.append(
            Note(f"{counted(device.steps, 'step')} are few: with more of them the verdict is surer")
        )
    if any(grew_late(one, device) for one in device.once):
        notes.append(
            Note(
                "an optimizer made state in later steps, which it makes once for each parameter: it"
                " is for layers that were unfrozen or added, and stops when all are trained"
            )
        )
    if device.growing_bytes_per_step:
        more = size(device.growing_bytes_per_step)
        notes.append(
            Note(
                f"each {_unit(device)} needs {more} more than the last, and gives it back: a batch"
                " or a sequence that grows, which is not a leak"
            )
        )
    notes += [
        Note(
            f"{one.label} is one allocation that is replaced by a larger one each"
            f" {_unit(device)}, as `total = torch.cat([total, new])` does"
        )
        for one in device.leaks[:ONCE_SHOWN]
        if one.replaced
    ]
    notes += [
        Note(
            f"the rate of {one.label} is what is left of it: other {_one(report)}s give"
            f" {_rate(device, one.made_up_bytes_per_step)} back meanwhile"
        )
        for one in device.leaks[:ONCE_SHOWN]
        if one.made_up_bytes_per_step
    ]
    if device.source.taken_together > 1:
        together = counted(device.source.taken_together, "repetition")
        notes.append(Note(f"there are so many steps that each one here is {together}"))
    if (device.leaks_total or device.whole_bytes_per_step) and device.runs_out is None:
        notes.append(
            Note("give --total-memory 80GiB to see after how many steps that much memory runs out")
        )
    return notes
