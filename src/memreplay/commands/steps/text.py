"""Format a program's steps as text."""

from __future__ import annotations

import shlex

from memreplay.analysis.steps.boundaries import OPTIMIZER_STEP, PROFILER_STEP
from memreplay.analysis.steps.records import Doubt, StepSource
from memreplay.analysis.steps.summing import Outside, Step
from memreplay.commands.steps.result import DeviceSteps, Odd, StepsReport
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
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    duration,
    percent,
    signed_size,
    size,
)
from memreplay.texts import clean

_QUANTITIES = {"peak_bytes": "peak", "allocated_bytes": "allocated", "duration_us": "duration"}
_FOUND = {
    "stacks": "repeating stacks",
    "sizes": "repeating allocation sizes",
    "usage": "memory rising and falling",
}
_DOUBTS: dict[Doubt, str] = {
    "several_optimizers": (
        "several optimizers seem to share this annotation, and each of their steps counts as one,"
        " so there may be fewer steps; mark steps with torch.profiler.record_function() and name"
        " them with --step annotation=NAME"
    ),
    "left_out": (
        "some steps have no mark: a step's work occurs more than once before the optimizer's next"
        " step, as when a GradScaler skips steps; mark steps with torch.profiler.record_function()"
        " and name them with --step annotation=NAME"
    ),
}
SURE = 0.85
ODD_SHOWN = 4
LEAST_STEADY = 5  # with fewer steps, none is reported as odd


def steps_document(report: StepsReport, *, top: int = 20) -> Document:
    """Build a section per device: how steps were found, medians, and up to `top` rows (0: all)."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    blocks += device_blocks([_section(device, report, top) for device in report.devices])
    return tuple(blocks)


def _section(device: DeviceSteps, report: StepsReport, top: int) -> list[Block]:
    if device.step_source is None:
        return [Heading((f"device {device.device}: no steps",)), Note(device.missing)]
    none = device.step_source.is_whole
    steps = "no steps were found" if none else counted(len(device.steps), "step")
    title = f"device {device.device}: {steps}"
    blocks: list[Block] = [Heading((title, f"{device.measure}, {trust_label(device)}"))]
    blocks.append(Pairs(tuple(_pairs(device, report))))
    blocks += _table(device, top)
    if device.step_source.taken_together > 1:
        together = counted(device.step_source.taken_together, "repetition")
        blocks.append(Note(f"each step here is {together}, because there are so many"))
    blocks += _growth_note(device)
    blocks += guess_notes(device.step_source)
    blocks += notes_of(device)
    return blocks


def _growth_note(device: DeviceSteps) -> list[Block]:
    """Return where to look if most steps after the warm-up leave more memory behind."""
    steady = device.steady
    if steady is None or steady.growth_bytes <= 0 or len(device.steps) < 2:
        return []
    grew = [step.growth_bytes > 0 for step in device.steps if step.number >= steady.first]
    if 2 * sum(grew) <= len(grew):  # of two steps, one may be warm-up
        return []
    if device.measure == "reserved":  # segments have no stacks
        return []
    command = " ".join(filter(None, ("memreplay leaks", _step_option(device))))
    return [
        Note(
            f"a typical step leaves {size(steady.growth_bytes)} more than the one before; {command}"
            " shows which code keeps it"
        )
    ]


def _step_option(device: DeviceSteps) -> str:
    """Return the option with which another command uses the same steps; "" if it isn't needed."""
    source = device.step_source
    assert source is not None
    if source.found_by == "given":
        first = device.steps[0]
        period = (first.last_event - first.first_event + 1) // source.taken_together
        return f"--step period={period}"
    if source.found_by == "annotation" and source.name not in (PROFILER_STEP, OPTIMIZER_STEP):
        return f"--step {clean(shlex.quote(f'annotation={source.name}'))}"
    return ""


def source_text(source: StepSource) -> str:
    """Describe how steps were found, and how certain that is."""
    if source.found_by == "annotation":
        between = ", from the end of one to the end of the next"
        words = f"annotation {source.name}" + (between if source.name == "Optimizer.step" else "")
        return f"{words}: their number is a guess" if source.doubt else words
    if source.found_by == "recorder":
        return "recorded by memreplay"
    if source.found_by == "optimizer":
        return f"each ends with the optimizer's {source.name}(), found in stacks"
    if source.found_by == "given":
        return "from --step period"
    if source.is_whole:
        return "none found: the whole recording is shown as one"
    if source.found_by == "windows":
        return "equal parts of the events"
    return f"{_sure(source)} from {_FOUND[source.found_by]}"


def _sure(source: StepSource) -> str:
    """Return how certain inferred steps are. The result is never better than `inferred`, because
    repetitions aren't necessarily steps.
    """
    return "inferred" if source.score >= SURE and source.found_by == "stacks" else "guessed"


def guess_notes(source: StepSource) -> list[Block]:
    """Return notes on what to do if steps were only inferred from the trace."""
    if source.is_whole:
        return [
            Note(
                "no annotation or optimizer marks steps, and nothing repeats like steps; define"
                " them with --step annotation=NAME or --step period=N"
            )
        ]
    if source.doubt is not None:
        return [Note(_DOUBTS[source.doubt])]
    if source.found_by not in _FOUND:
        return []
    return [
        Note(
            "these steps are guessed from repetition, so each may be a micro-batch or several"
            " steps; annotate steps with torch.profiler.record_function() and name them with"
            " --step annotation=NAME"
        )
    ]


def _pairs(device: DeviceSteps, report: StepsReport) -> list[tuple[str, str]]:
    source = device.step_source
    assert source is not None
    words = source_text(source)
    of_optimizer = source.found_by == "optimizer" or source.name == "Optimizer.step"
    if of_optimizer and device.steps[0].first_event == device.first_event:
        words += "; step 1 begins with the recording"
    elif device.steps[0].name not in ("", source.name):
        words += f"; step 1 is {device.steps[0].name}"
    pairs = [("steps", words)]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    if device.warm_up_steps:
        grew = sum(step.growth_bytes for step in device.steps[: device.warm_up_steps])
        pairs.append(("warm-up", f"{_range(1, device.warm_up_steps)}: {signed_size(grew)}"))
    steady = device.steady
    if steady is not None and len(device.steps) > 1:
        words = (
            f"{_range(steady.first, steady.last)}, medians: peak {size(steady.peak_bytes)},"
            f" end {size(steady.end_bytes)}, growth {signed_size(steady.growth_bytes)},"
            f" {counted(steady.allocation_count, 'allocation')} of {size(steady.allocated_bytes)}"
        )
        if steady.duration_us is not None:
            words += f", {duration(steady.duration_us)}"
        pairs.append(("steady", words))
    if device.odd or (steady is not None and steady.last - steady.first + 1 >= LEAST_STEADY):
        pairs.append(("odd", _odd_text(device.odd) if device.odd else "none"))
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


def _odd_text(odd: tuple[Odd, ...]) -> str:
    by_step: dict[int, list[str]] = {}
    for one in odd:
        by_step.setdefault(one.number, []).append(_odd_word(one))
    shown = [f"step {count(n)} ({', '.join(words)})" for n, words in by_step.items()]
    more = f" and {len(shown) - ODD_SHOWN} more" if len(shown) > ODD_SHOWN else ""
    return ", ".join(shown[:ODD_SHOWN]) + more


def _odd_word(one: Odd) -> str:
    """Return how a step differs from the median, such as `peak +23.4%`."""
    name = _QUANTITIES[one.quantity]
    if one.median <= 0:
        return name
    share = (one.value - one.median) / one.median
    return f"{name} {'+' if share > 0 else '-'}{percent(abs(share))}"


def _outside(part: Outside) -> str:
    return (
        f"{counted(part.events, 'event')}, {counted(part.allocation_count, 'allocation')} of"
        f" {size(part.allocated_bytes)}, peak {size(part.peak_bytes)}"
    )


def _table(device: DeviceSteps, top: int) -> list[Block]:
    odd = {one.number for one in device.odd}
    shown = [step for step in device.steps if _is_shown(step, device, top, odd)]
    rows: list[Row] = []
    before = 0
    for step in shown:
        if step.number != before + 1:
            rows.append(Row(("…", *("",) * 7), style="dim"))
        rows.append(_row(step, device, step.number in odd))
        before = step.number
    titles = ("step", "event", "took", "peak", "at event", "end", "growth", "allocated")
    blocks: list[Block] = [Table(titles, ("right",) * 8, tuple(rows))]
    if left := len(device.steps) - len(shown):
        blocks.append(Note(f"{counted(left, 'step')} left out (--top 0 shows all)"))
    return blocks


def _is_shown(step: Step, device: DeviceSteps, top: int, odd: set[int]) -> bool:
    """Return whether to show a step. If there are more than `top` steps, show the first ones, the
    last ones, and odd ones unless there are many.
    """
    steps = len(device.steps)
    if top == 0 or steps <= top:
        return True
    if step.number <= (top + 1) // 2 or step.number > steps - top // 2:
        return True
    return step.number in odd and len(odd) <= top


def _row(step: Step, device: DeviceSteps, is_odd: bool) -> Row:
    cells = (
        f"*{count(step.number)}" if is_odd else count(step.number),
        count(step.first_event),
        "-" if step.duration_us is None else duration(step.duration_us),
        size(step.peak_bytes),
        count(step.peak_event) if step.peak_event >= device.first_event else "start",
        size(step.end_bytes),
        signed_size(step.growth_bytes),
        size(step.allocated_bytes),
    )
    return Row(cells, style="strong" if is_odd else "plain")
