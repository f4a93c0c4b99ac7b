"""Says in which step and annotations of its program a moment is."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.steps.records import StepAt
from memreplay.render.fit import cut_right
from memreplay.render.units import count
from memreplay.texts import clean

NAME_WIDTH = 40  # of an annotation


def where_words(step: StepAt | None, annotations: Sequence[str]) -> str:
    """`step 3 of 10 (ProfilerStep#7), annotation forward`, as far as they are known."""
    words = []
    if step is not None:
        by = step.name if step.inside and step.name and not _ends(step) else ""
        said = f"({_short(by) if by else _by(step)})"
        words.append(f"{_number(step)} {said}")
        annotations = [name for name in annotations if name != by]
    if annotations:
        words.append("annotation " + " > ".join(map(_short, annotations)))
    return ", ".join(words)


def _number(step: StepAt) -> str:
    if step.number > step.of:
        return f"after step {count(step.of)} of {count(step.of)}"
    words = f"step {count(step.number)} of {count(step.of)}"
    return words if step.inside else f"before {words}"


def _ends(step: StepAt) -> bool:
    """Whether a step ends with what marks it, and is not what it marks."""
    return step.found == "optimizer" or step.by == "Optimizer.step"


def _by(step: StepAt) -> str:
    if step.found == "recorder":
        return "as recorded"
    if step.found == "optimizer":
        return f"ends with the optimizer's {step.by}()"
    return f"ends with {step.by}" if _ends(step) else step.by


def _short(name: str) -> str:
    return cut_right(clean(name), NAME_WIDTH)
