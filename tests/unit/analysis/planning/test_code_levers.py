"""Tests of analysis/planning/code_levers.py: what other forms of code save."""

from __future__ import annotations

from memreplay.analysis.advising import forms
from memreplay.analysis.advising.passes import unneeded
from memreplay.analysis.planning import code_levers as code
from memreplay.analysis.planning.lever import Lever
from tests.unit.analysis.advising.programs import (
    BACKWARD,
    EVALUATE,
    FORWARD,
    LINEAR,
    LOSS,
    MIB,
    SOFTMAX,
    Program,
)
from tests.unit.analysis.planning.training import recording_of


def saved(made: Program, lever: Lever) -> int:
    program = recording_of(made.snapshot()).program()
    assert lever.effect is not None
    return program.peak() - program.with_effect(lever.effect).peak()


def test_loss_in_chunks_saves_what_its_form_says() -> None:
    made = Program()
    others = [made.alloc(MIB, FORWARD) for _ in range(10)]
    kept = [made.alloc(80 * MIB, one) for one in (LINEAR, LOSS, BACKWARD)]
    made.free(*kept, *others)
    (lever,) = code.chunked_loss(recording_of(made.snapshot()))
    assert saved(made, lever) == forms.loss(made.lives()).saved_bytes == 3 * 70 * MIB
    assert (lever.name, lever.how, lever.price) == ("chunked-loss", "edit", "time")
    assert lever.place is not None


def test_fused_attention_saves_all_scores() -> None:
    made = Program()
    kept = []
    for _ in range(3):
        kept += [made.alloc(4 * MIB, LINEAR), made.alloc(64 * MIB, FORWARD)]
        kept.append(made.alloc(64 * MIB, SOFTMAX))
    made.free(*kept)
    (lever,) = code.fused_attention(recording_of(made.snapshot()))
    assert saved(made, lever) == forms.attention_scores(made.lives()).saved_bytes == 6 * 64 * MIB


def test_evaluation_without_a_graph_saves_what_nothing_needs() -> None:
    made = Program()
    for _ in range(2):
        kept = [made.alloc(MIB, FORWARD) for _ in range(12)]
        for block in reversed(kept):
            made.free(block, made.alloc(MIB, BACKWARD))
        made.free(*[made.alloc(8 * MIB, EVALUATE) for _ in range(12)])
    (lever,) = code.no_gradients(recording_of(made.snapshot()))
    found = unneeded(made.lives(), (), told=True)
    assert found is not None
    assert saved(made, lever) == found.saved_bytes > 60 * MIB
    assert lever.name == "no-grad"


def test_code_without_these_forms_has_no_levers() -> None:
    made = Program()
    made.free(made.alloc(MIB, FORWARD))
    recording = recording_of(made.snapshot())
    for find in (code.chunked_loss, code.fused_attention, code.no_gradients):
        assert not list(find(recording))
