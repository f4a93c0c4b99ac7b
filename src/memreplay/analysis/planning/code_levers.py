"""Levers that write a computation differently: losses, attention, passes without gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.advising import forms
from memreplay.analysis.advising.passes import kept_in_vain
from memreplay.analysis.planning.lever import Lever
from memreplay.analysis.planning.program import Effect, resized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.analysis.planning.lever import Recording


def chunked_loss(recording: Recording) -> Iterator[Lever]:
    """Yield the lever that computes logits and loss for a few tokens at a time."""
    found = forms.logits(recording.lives)
    if found is None:
        return
    effect = resized(recording.lives, found.chosen, 1 / forms.CHUNKS)
    if effect.changes:
        yield Lever(
            "chunked-loss",
            str(forms.CHUNKS),
            f"compute the loss in {forms.CHUNKS} chunks of tokens",
            effect,
            "time",
            0.01,
            "each chunk's logits are computed again in the backward pass",
            "edit",
            "loss = sum(checkpoint(lambda h, t: F.cross_entropy(head(h), t, reduction='sum'), h, t,"
            " use_reentrant=False) for h, t in zip(hidden.chunk(8), targets.chunk(8))) / n",
            guess="the chunks' other temporaries aren't known",
            place=recording.lives.largest_place(found.chosen, found.place),
        )


def fused_attention(recording: Recording) -> Iterator[Lever]:
    """Yield the lever that replaces attention that is written out."""
    found = forms.scores(recording.lives)
    if found is None:
        return
    effect = resized(recording.lives, found.chosen, 0)
    if effect.changes:
        yield Lever(
            "fused-attention",
            "",
            "use fused attention",
            effect,
            "free",
            0.0,
            "it's usually faster",
            "edit",
            "F.scaled_dot_product_attention(q, k, v) (Hugging Face: attn_implementation='sdpa')",
            guess="the fused kernel's own small buffers aren't known",
            place=recording.lives.largest_place(found.chosen, found.place),
        )


def no_gradients(recording: Recording) -> Iterator[Lever]:
    """Yield the lever for passes that keep results although no backward pass follows."""
    found = kept_in_vain(recording.lives, recording.failed, told=recording.told)
    if found is None:
        return
    lives = recording.lives
    rows = (found.kept & (found.freed < lives.end)).rows()
    if len(rows):
        name = "no_grad" if found.trained else "inference_mode"
        yield Lever(
            name.replace("_", "-"),
            "",
            f"use torch.{name}() where no backward pass follows",
            Effect(ended=rows, ends=found.freed[rows]),
            "free",
            0.0,
            "results that nothing needs aren't kept",
            "edit",
            f"with torch.{name}():",
            guess="when Python drops each result isn't known",
            place=lives.largest_place(found.kept),
        )
