"""Guess the phase of a training step from an allocation's stack.

Recorded phases take precedence.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from memreplay.analysis.categories.rules import DEFAULT_RULES, MERGED_RULES, Rule

# The phase that a category rule implies, if any.
_PHASES = {
    "weights (cast)": "forward",
    "weights or activations (cast)": "forward",
    "optimizer temporaries": "optimizer",
    "optimizer state": "optimizer",
    "activations": "forward",
    "backward": "backward",
    "KV cache": "forward",
    "attention": "forward",
    "data loading": "data",
    "buffers": "start",
    "parameters": "start",
    "parameters (likely)": "before the recording",
    "optimizer state (likely)": "before the recording",
    "gradients (likely)": "before the recording",
    "activations or inputs (likely)": "before the recording",
    "before the recording: parameters, optimizer state, buffers": "before the recording",
}
_RECOMPUTED = "recompute_fn"


def _phase_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple(
        replace(
            rule, name="recomputation" if _RECOMPUTED in (rule.frames or "") else _PHASES[rule.name]
        )
        for rule in rules
        if rule.name in _PHASES
    )


PHASE_RULES = _phase_rules(DEFAULT_RULES)
MERGED_PHASE_RULES = _phase_rules(MERGED_RULES)
