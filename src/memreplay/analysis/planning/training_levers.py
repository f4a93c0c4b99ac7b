"""Levers of training: gradients, optimizers, batches, and ranks that share the state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.analysis.advising import forms
from memreplay.analysis.advising.lives import CASTS, FOREACH, REDUCES, WORKSPACE
from memreplay.analysis.planning.lever import Lever
from memreplay.analysis.planning.program import Again, Effect, resized
from memreplay.engine.query._vectors import constant, counting, joined, vector, zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.analysis.planning.lever import Certainty, Recording
    from memreplay.engine.query._vectors import Vector

SCALAR = 4096  # bytes; step counters and similar state is smaller
# bitsandbytes keeps one byte per number and, for each block of 256, a 4-byte factor.
EIGHT_BIT = 0.25 * (1 + 4 / 256)
RANKS = (2, 4, 8)
PARTS = (2, 4, 8)  # of a batch
PARAMETERS = ("parameters", "unsharded parameters")
GRADIENTS = ("gradients", "unsharded gradients")
STATE = ("optimizer state",)
# The categories that don't depend on the batch.
FIXED = (
    *PARAMETERS,
    *GRADIENTS,
    *STATE,
    "buffers",
    "optimizer temporaries",
    "communication",
    "NCCL",
)
_ESTIMATED: tuple[Certainty, str] = ("estimated", "gradients are inferred from the stacks")
_LIFETIMES: tuple[Certainty, str] = (
    "usually_exact",
    "when a forward pass begins is inferred",
)
_FUSED = re.compile(r"/torch/optim/(?:adam|adamw|sgd|adagrad)\.py$")


def set_to_none(recording: Recording) -> Iterator[Lever]:
    """Yield the lever that frees gradients before the forward pass."""
    lives = recording.lives
    at: list[Vector] = []
    owner: list[Vector] = []
    makes: list[Vector] = []
    ended: list[Vector] = []
    ends: list[Vector] = []
    for one in forms.stale(lives, recording.steps):
        # A gradient that ends before it would be replaced isn't made again.
        replaced = one.until < lives.end[one.rows]
        rows = one.rows[replaced]
        at += [constant(one.begin, len(rows)), one.until[replaced]]
        owner += [rows, rows]
        makes += [zeros(len(rows)), constant(1, len(rows))]
        ended.append(one.rows[~replaced])
        ends.append(constant(one.begin, len(ended[-1])))
    if not at:
        return
    when = joined(at)
    order = when.order()
    again = Again(when[order], joined(owner)[order], joined(makes)[order], vector([]))
    certainty, guess = _ESTIMATED
    if lives.recorded:
        certainty, guess = _LIFETIMES
    yield Lever(
        "set-to-none",
        "",
        "free gradients before the forward pass",
        Effect(ended=joined(ended), ends=joined(ends), again=again),
        "free",
        0.0,
        "it's also faster",
        "change",
        "optimizer.zero_grad(set_to_none=True)",
        certainty=certainty,
        guess=guess,
    )


def optimizers(recording: Recording) -> Iterator[Lever]:
    """Yield the levers that change an optimizer's kernels or its state."""
    lives = recording.lives
    temporary = forms.temporaries(lives)
    place = lives.largest_place(temporary, (lives.code() & FOREACH) > 0)
    if temporary.any():
        if _has_fused(recording, temporary):
            yield Lever(
                "fused",
                "on",
                "use the optimizer's fused kernel",
                resized(lives, temporary, 0),
                "free",
                0.0,
                "it's faster and needs no temporary memory",
                "change",
                "optimizer = AdamW(..., fused=True)",
                guess="the step counters move to the GPU",
                place=place,
                excludes="optimizer",
            )
        yield Lever(
            "foreach",
            "off",
            "update one parameter at a time",
            resized(lives, temporary & ~_largest(lives.bytes, temporary, lives.stack), 0),
            "time",
            0.03,
            "more and smaller kernels",
            "change",
            "optimizer = AdamW(..., foreach=False)",
            guess="the temporaries of one parameter are counted at their size here",
            place=place,
            excludes="optimizer",
        )
    state = recording.of(*STATE) & (lives.bytes > SCALAR)
    if not state.any():
        return
    yield Lever(
        "optimizer",
        "8bit",
        "keep the optimizer's state in 8 bits",
        resized(lives, state, EIGHT_BIT),
        "results",
        0.0,
        "the state is rounded to 8 bits",
        "edit",
        "optimizer = bitsandbytes.optim.AdamW8bit(...)",
        guess="state of small tensors stays in 32 bits",
        excludes="state",
    )
    yield Lever(
        "offload-state",
        "",
        "keep the optimizer's state in the CPU's memory",
        resized(lives, state, 0),
        "time",
        None,
        "the state, or the gradients, cross the PCIe bus in each step",
        "edit",
        "optimizer = torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW)",
        guess="buffers for the transfer aren't known",
        excludes="state",
    )
    yield Lever(
        "optimizer",
        "sgd",
        "use an optimizer without state",
        resized(lives, state | temporary, 0),
        "results",
        0.0,
        "training takes another course, and usually needs other learning rates",
        "edit",
        "optimizer = torch.optim.SGD(...)",
        guess="the optimizer's temporaries aren't known",
        excludes="state",
    )


def accumulate(recording: Recording) -> Iterator[Lever]:
    """Yield the levers that split a batch: in training, gradients are then accumulated."""
    lives = recording.lives
    batch = _of_batch(recording)
    if not batch.any():
        return
    trains = (recording.of(*GRADIENTS, "backward", "autograd detail")).any()
    again = _accumulated(recording) if trains else None
    for parts in PARTS:
        training = (
            f"split each batch into {parts}, and accumulate gradients",
            f"for part in batch.chunk({parts}): (loss(model(part)) / {parts}).backward()",
        )
        inference = (
            f"split each batch into {parts}",
            f"outputs = [model(part) for part in batch.chunk({parts})]",
        )
        title, edit = training if trains else inference
        yield Lever(
            "accumulate" if trains else "split-batch",
            str(parts),
            title,
            resized(lives, batch, 1 / parts)._replace(again=again),
            "time",
            0.05 * (parts - 1).bit_length(),
            "smaller kernels use the GPU less well (a rule of thumb)",
            "edit",
            edit,
            guess="activations are assumed to be proportional to the batch",
            excludes="batch",
        )


def _accumulated(recording: Recording) -> Again | None:
    """Return the gradients that earlier parts of a batch leave. They already exist in the last
    part's forward pass, because its backward pass adds the new gradients to them.
    """
    lives = recording.lives
    made = recording.of(*GRADIENTS) & lives.of("phase", "backward")
    forward = lives.start[lives.forward()]
    rows, begins = [], []
    if not recording.steps:
        return None
    for step, end in zip(recording.steps, [*recording.steps[1:], lives.events], strict=True):
        begin = forward[forward.places([step])[0] :][:1]
        some = (made & (lives.start >= step) & (lives.start < end)).rows()
        if len(begin) and len(some):
            rows.append(some)
            begins.append(constant(max(begin[0], 1), len(some)))
    if not rows:
        return None
    # The old gradient stays until the new one, which takes its place here, is there.
    like = joined(rows)
    after = joined([lives.start, [lives.events]])[like + 1].lower(lives.end[like])
    at = joined([joined(begins), after])
    order = at.order()
    added = len(lives) + counting(len(like))
    makes = joined([constant(1, len(like)), zeros(len(like))])
    return Again(at[order], joined([added, added])[order], makes[order], like)


def _of_batch(recording: Recording) -> Vector:
    """Return which rows are assumed to be proportional to the batch."""
    lives = recording.lives
    passing = lives.of("phase", "forward", "backward", "recomputation", "data")
    if not lives.recorded:
        passing = recording.of("activations", "attention", "backward", "autograd detail", "inputs")
    # Autocast's copies of parameters have half their sizes.
    own = (lives.bytes[recording.of(*PARAMETERS)] >> 1).distinct()
    copies = ((lives.code() & CASTS) > 0) & lives.bytes.is_in(own)
    # Buffers for sums over many rows depend more on the GPU than on the number of rows.
    space = (lives.code() & (WORKSPACE | REDUCES)) > 0
    return passing & ~recording.of(*FIXED) & ~copies & ~space & (lives.bytes > SCALAR)


def shard(recording: Recording) -> Iterator[Lever]:
    """Yield the levers that share parameters, gradients and state among ranks."""
    lives = recording.lives
    parameters = recording.of(*PARAMETERS)
    kept = parameters | recording.of(*GRADIENTS) | recording.of(*STATE)
    if not parameters.any() or recording.notes is None:
        return
    # A gathered block's parameters, and the next one's, which are gathered ahead.
    gathered = 2 * _largest_block(recording, parameters)
    first = (lives.forward() & (lives.start > 0)).rows()
    like = lives.bytes.argmax()
    for ranks in RANKS:
        effect = resized(lives, kept, 1 / ranks)
        if gathered and len(first):
            at = lives.start[first[0]]
            effect = effect._replace(
                again=Again(vector([at]), vector([len(lives)]), vector([1]), vector([like])),
                added=vector([gathered]),
            )
        yield Lever(
            "shard",
            str(ranks),
            f"share parameters, gradients and state among {ranks} ranks (FSDP)",
            effect,
            "hardware",
            None,
            f"{ranks} GPUs, and communication in each pass",
            "edit",
            "for block in model.layers: fully_shard(block)\nfully_shard(model)",
            guess="two blocks' gathered parameters are assumed",
            excludes="shard",
        )


def _largest_block(recording: Recording, parameters: Vector) -> int:
    """Return the bytes of the parameters of the largest module that is recomputed or sharded as a
    whole.
    """
    lives, notes = recording.lives, recording.notes
    assert notes is not None
    return max(
        (
            lives.bytes[parameters & notes.module.is_in(inside)].sum()
            for inside in notes.units().values()
        ),
        default=0,
    )


def _largest(sizes: Vector, chosen: Vector, stack: Vector) -> Vector:
    """Return those of the chosen rows with the largest size, one per stack."""
    rows = (chosen & (sizes == sizes[chosen].max(initial=0))).rows()
    _, places = stack[rows].numbered()
    first = zeros(places.max(initial=-1) + 1)
    backwards = len(rows) - 1 - counting(len(rows))
    first[places[backwards]] = rows[backwards]
    found = zeros(len(sizes), "?")
    found[first] = True
    return found


def _has_fused(recording: Recording, chosen: Vector) -> bool:
    """Return whether PyTorch has a fused kernel for the optimizer that made these rows."""
    for stack in recording.lives.stack[chosen].distinct()[:8]:
        if any(_FUSED.search(frame.file) for frame in recording.snap.stack(stack)):
            return True
    return False
