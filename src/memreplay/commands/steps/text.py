"""Writes the steps of a program as a document for people."""

from __future__ import annotations

from memreplay.analysis.steps.records import StepSource
from memreplay.commands.steps.result import DeviceSteps, Odd, Outside, Step, StepsReport
from memreplay.render.document import Block, Document, Heading, Note, Pairs, Place, Row, Table
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    duration,
    percent,
    signed_size,
    size,
)

_QUANTITIES = {"peak_bytes": "peak", "allocated_bytes": "allocated", "duration_us": "duration"}
_FOUND = {
    "stacks": "by runs of allocations with the same stacks, which recur once in each",
    "sizes": "by runs of allocations of the same sizes, which recur once in each",
    "usage": "by the rise and fall of memory",
}
SURE = 0.85
ODD_SHOWN = 4
LEAST_STEADY = 5  # steps among which one may be odd


def steps_document(report: StepsReport, *, top: int = 20) -> Document:
    """A section a device: how the steps were found, what they are like, and a row for each, of
    `top` steps; 0 for all."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    for device in report.devices:
        blocks += _section(device, report, top)
    return tuple(blocks)


def _section(device: DeviceSteps, report: StepsReport, top: int) -> list[Block]:
    if device.source is None:
        return [Heading((f"device {device.device}: no steps",)), Note(device.missing)]
    title = f"device {device.device}: {counted(len(device.steps), 'step')}"
    blocks: list[Block] = [Heading((title, f"{device.measure}, {trust_label(device)}"))]
    blocks.append(Pairs(tuple(_pairs(device, report))))
    blocks += _table(device, top)
    if device.source.taken_together > 1:
        together = counted(device.source.taken_together, "repetition")
        blocks.append(Note(f"there are so many that each step here is {together}"))
    blocks += guess_notes(device.source)
    blocks += notes_of(device)
    return blocks


def source_words(source: StepSource) -> str:
    """How steps were found, and how sure that is."""
    if source.kind == "annotation":
        between = ", from the end of one to the end of the next"
        return f"annotation {source.name}" + (between if source.name == "Optimizer.step" else "")
    if source.kind == "recorder":
        return "as memreplay recorded them"
    if source.kind == "optimizer":
        return f"by the stacks of the optimizer's {source.name}(): each ends with it"
    if source.kind == "given":
        return "as given by --period"
    if source.kind == "whole":
        return "none found: everything that was read counts as one"
    if source.kind == "windows":
        return "windows: equal parts of the events"
    return f"{_FOUND[source.kind]}: {_sure(source)} (score {source.score:.2f})"


def _sure(source: StepSource) -> str:
    """Never more than likely: what repeats need not be a step."""
    return "likely" if source.score >= SURE and source.kind == "stacks" else "a guess"


def guess_notes(source: StepSource) -> list[Block]:
    """What to do where steps were found in the trace alone, and it is not sure that they are."""
    if source.kind == "whole":
        return [
            Note(
                "no annotation or optimizer marks a step here, and no repetition looks like steps;"
                " say what a step is with --step-annotation or --period"
            )
        ]
    if source.kind not in _FOUND:
        return []
    return [
        Note(
            "nothing names these steps, so they may be other repetitions: the batches of a step"
            " that accumulates gradients, or several steps; annotate steps with"
            " torch.profiler.record_function() and name them with --step-annotation"
        )
    ]


def _pairs(device: DeviceSteps, report: StepsReport) -> list[tuple[str, str]]:
    assert device.source is not None
    words = source_words(device.source)
    of_optimizer = device.source.kind == "optimizer" or device.source.name == "Optimizer.step"
    if of_optimizer and device.steps[0].first_event == device.first_event:
        words += "; step 1 begins with the recording"
    elif device.steps[0].name not in ("", device.source.name):
        words += f"; step 1 is {device.steps[0].name}"
    pairs = [("steps", words)]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} alone"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} alone"))
    if device.warm_up_steps:
        grew = sum(step.growth_bytes for step in device.steps[: device.warm_up_steps])
        pairs.append(("warm-up", f"{_range(1, device.warm_up_steps)}: {signed_size(grew)}"))
    steady = device.steady
    if steady is not None and len(device.steps) > 1:
        words = (
            f"{_range(steady.first, steady.last)}, medians: peak {size(steady.peak_bytes)},"
            f" end {size(steady.end_bytes)}, growth {signed_size(steady.growth_bytes)},"
            f" {counted(steady.allocations, 'allocation')} of {size(steady.allocated_bytes)}"
        )
        if steady.duration_us is not None:
            words += f", {duration(steady.duration_us)}"
        pairs.append(("steady", words))
    if device.odd or (steady is not None and steady.last - steady.first + 1 >= LEAST_STEADY):
        pairs.append(("odd", _odd_words(device.odd) if device.odd else "none"))
    for name, part in (
        ("before", device.before),
        ("between", device.between),
        ("after", device.after),
    ):
        if part is not None and part.events:
            pairs.append((name, _outside(part)))
    return pairs


def _range(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {count(first)} to {count(last)}"


def _odd_words(odd: tuple[Odd, ...]) -> str:
    by_step: dict[int, list[str]] = {}
    for one in odd:
        by_step.setdefault(one.index, []).append(_odd_word(one))
    shown = [f"step {count(n)} ({', '.join(words)})" for n, words in by_step.items()]
    more = f" and {len(shown) - ODD_SHOWN} more" if len(shown) > ODD_SHOWN else ""
    return ", ".join(shown[:ODD_SHOWN]) + more


def _odd_word(one: Odd) -> str:
    """`peak +23.4%`: in what a step is odd, against the median."""
    name = _QUANTITIES[one.quantity]
    if one.median <= 0:
        return name
    share = (one.value - one.median) / one.median
    return f"{name} {'+' if share > 0 else '-'}{percent(abs(share))}"


def _outside(part: Outside) -> str:
    return (
        f"{counted(part.events, 'event')}, {counted(part.allocations, 'allocation')} of"
        f" {size(part.allocated_bytes)}, peak {size(part.peak_bytes)}"
    )


def _table(device: DeviceSteps, top: int) -> list[Block]:
    odd = {one.index for one in device.odd}
    shown = [step for step in device.steps if _is_shown(step, device, top, odd)]
    rows: list[Row] = []
    before = 0
    for step in shown:
        if step.index != before + 1:
            rows.append(Row(("…", *("",) * 7), style="dim"))
        rows.append(_row(step, device, step.index in odd))
        before = step.index
    titles = ("step", "event", "took", "peak", "at event", "end", "growth", "allocated")
    blocks: list[Block] = [Table(titles, ("right",) * 8, tuple(rows))]
    if left := len(device.steps) - len(shown):
        blocks.append(Note(f"{counted(left, 'step')} left out (--top 0 shows all)"))
    return blocks


def _is_shown(step: Step, device: DeviceSteps, top: int, odd: set[int]) -> bool:
    """The first and the last ones, and the odd ones as far as there are not many."""
    steps = len(device.steps)
    if top == 0 or steps <= top:
        return True
    if step.index <= (top + 1) // 2 or step.index > steps - top // 2:
        return True
    return step.index in odd and len(odd) <= top


def _row(step: Step, device: DeviceSteps, is_odd: bool) -> Row:
    cells = (
        f"*{count(step.index)}" if is_odd else count(step.index),
        count(step.first_event),
        "-" if step.duration_us is None else duration(step.duration_us),
        size(step.peak_bytes),
        count(step.peak_event) if step.peak_event >= device.first_event else "start",
        size(step.end_bytes),
        signed_size(step.growth_bytes),
        size(step.allocated_bytes),
    )
    return Row(cells, style="strong" if is_odd else "plain")
