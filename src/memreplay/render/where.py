"""Describe the step and annotations at a moment."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.steps.records import StepAt
from memreplay.render.fit import cut_right
from memreplay.render.units import count
from memreplay.texts import clean

NAME_WIDTH = 40  # maximum width of an annotation
SHOWN = 3  # of the annotations that are open, the innermost ones


def where_text(step: StepAt | None, annotations: Sequence[str]) -> str:
    """Return the step and annotation, if known, e.g. `step 3 of 10 (ProfilerStep#7), annotation
    forward`.
    """
    words = []
    if step is not None:
        by = step.name if step.inside and step.name and not _ends(step) else ""
        said = f"({_short(by) if by else _by(step)})"
        words.append(f"{_number(step)} {said}")
        annotations = [name for name in annotations if name != by]
    if annotations:
        words.append("annotation " + " > ".join(map(_short, annotations[-SHOWN:])))
    return ", ".join(words)


def _number(step: StepAt) -> str:
    if step.number > step.of:
        return f"after step {count(step.of)} of {count(step.of)}"
    words = f"step {count(step.number)} of {count(step.of)}"
    return words if step.inside else f"before {words}"


def _ends(step: StepAt) -> bool:
    """Return whether a step's mark is at the step's end rather than covering the step."""
    return step.found_by == "optimizer" or step.by == "Optimizer.step"


def _by(step: StepAt) -> str:
    if step.found_by == "recorder":
        return "recorded"
    if step.found_by == "optimizer":
        return f"ends with the optimizer's {step.by}()"
    return f"ends with {step.by}" if _ends(step) else step.by


def _short(name: str) -> str:
    return cut_right(clean(name), NAME_WIDTH)
