"""Tests of analysis/steps/boundaries.py."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

import leaky
import memreplay as mr
from memreplay.analysis.steps import records
from memreplay.analysis.steps.boundaries import find_steps, windows
from memreplay.analysis.steps.records import Found
from memreplay.errors import UsageError
from tests import build
from tests.build import START_US, SnapshotBuilder


def usage_of(snap: mr.Snapshot) -> mr.Usage:
    return snap.replay().measure()


def found(made: SnapshotBuilder, *, bounds: dict[str, Any] | None = None, **how: Any) -> Found:
    snap = mr.open(build.dump(made.build()), **(bounds or {}))
    return find_steps(snap, usage_of(snap), **how)


def events(count: int = 20) -> SnapshotBuilder:
    """Return one allocation every ten microseconds."""
    made = SnapshotBuilder()
    for k in range(count):
        made.alloc(1 << 20 | k << 12, 512, time_us=START_US + 10 * k)
    return made


def marked(made: SnapshotBuilder, name: str, *edges: tuple[int, int | None]) -> SnapshotBuilder:
    for start, end in edges:
        made.annotation(name, "START", START_US + start)
        if end is not None:
            made.annotation(name, "END", START_US + end)
    return made


def cuts(steps: Found) -> list[tuple[int, int]]:
    return [(piece.first, piece.stop) for piece in steps.pieces]


def test_profiler_steps_run_from_start_to_end() -> None:
    made = marked(events(), "ProfilerStep#3", (15, 55))
    marked(made, "ProfilerStep#4", (55, 95))
    steps = found(marked(made, "ProfilerStep#5", (105, None)))
    assert cuts(steps) == [(2, 6), (6, 10)]
    assert [piece.name for piece in steps.pieces] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert steps.pieces[0].start_us == START_US + 15
    assert steps.source is not None
    assert (steps.source.found_by, steps.source.name) == ("annotation", "ProfilerStep")
    assert steps.source.score == 1


def test_event_at_the_edge_belongs_to_the_step_that_ends() -> None:
    made = marked(events(), "ProfilerStep#0", (0, 50))
    assert cuts(found(marked(made, "ProfilerStep#1", (50, 90)))) == [(0, 6), (6, 10)]


def test_step_with_dropped_first_events_is_left_out() -> None:
    edges = ((-95, -55), (-55, 35), (35, 65), (65, 95))
    # An earlier step ended before the first event, so its events were recorded and then dropped.
    late = SnapshotBuilder().free(1 << 30, 512, time_us=START_US)
    late.traces[0] += events().traces[0]
    late = marked(late, "ProfilerStep#0", *edges)
    assert cuts(found(late)) == [(6, 9), (9, 12)]
    # Nothing was live before the first event, so no events are missing.
    made = marked(events(), "ProfilerStep#0", *edges)
    assert cuts(found(made)) == [(0, 4), (4, 7), (7, 10)]
    # The file says that events were dropped.
    assert cuts(found(made.settings(trace_alloc_overflowed=True))) == [(4, 7), (7, 10)]
    late.settings(trace_alloc_overflowed=False)
    assert cuts(found(late)) == [(0, 6), (6, 9), (9, 12)]


def test_step_without_events_is_left_out() -> None:
    made = marked(events(), "ProfilerStep#0", (15, 55))
    marked(made, "ProfilerStep#1", (61, 69))  # between two events
    marked(made, "ProfilerStep#2", (75, 95))
    assert cuts(found(made)) == [(2, 6), (8, 10)]
    edges = (21, 25), (61, 65), (66, 67), (101, 105)
    assert cuts(found(marked(events(), "Optimizer.step#A", *edges))) == [(3, 7), (7, 11)]


def test_annotations_without_times_are_reported() -> None:
    made = marked(events(), "x", (15, 55), (55, 95))
    for event in made.traces[0]:
        del event["time_us"]
    assert "have no times" in found(made, annotation="x").missing


def test_optimizer_steps_run_from_end_to_end() -> None:
    made = marked(events(), "Optimizer.step#AdamW.step", (21, 25), (61, 65), (101, 105))
    marked(made, "Optimizer.step#SGD.step", (31, 35))
    steps = found(made)
    assert cuts(steps) == [(3, 7), (7, 11)]
    assert steps.pieces[0].start_us == START_US + 25


def test_annotation_may_be_given_without_the_part_after_the_hash() -> None:
    made = marked(events(), "decode#a", (5, 45))
    marked(made, "decode#b", (65, 95))
    marked(made, "decoder", (105, 125), (135, 145))
    assert cuts(found(made, annotation="decode")) == [(1, 5), (7, 10)]
    assert cuts(found(made, annotation="decoder")) == [(11, 13), (14, 15)]
    # A single occurrence is enough.
    assert cuts(found(made, annotation="decode#a")) == [(1, 5)]
    open_ended = marked(events(), "late", (5, None))
    none = found(open_ended, annotation="late")
    assert none.source is None
    assert "no 'late' annotation is complete" in none.missing
    other = found(made, annotation="step")
    assert other.missing == "device 0 has no annotation 'step'; there are: decode, decoder"
    assert "no annotations" in found(events(), annotation="step").missing


def test_steps_cut_by_a_range_are_left_out() -> None:
    made = marked(events(), "ProfilerStep#0", (-5, 35))
    marked(made, "ProfilerStep#1", (35, 75))
    marked(made, "ProfilerStep#2", (75, 115))
    marked(made, "ProfilerStep#3", (115, 155))
    assert len(found(made).pieces) == 4
    inside = found(made, bounds={"start": 2, "stop": 14})
    assert cuts(inside) == [(2, 6), (6, 10)]
    made = marked(events(), "Optimizer.step#A", (21, 25), (61, 65), (101, 105), (141, 145))
    assert cuts(found(made, bounds={"start": 2, "stop": 12})) == [(1, 5), (5, 9)]
    assert cuts(found(made, bounds={"start": 3})) == [(4, 8), (8, 12)]


def test_period_divides_the_events() -> None:
    assert cuts(found(events(), period=6)) == [(0, 6), (6, 12), (12, 18)]
    assert found(events(), period=11).missing == "20 events are fewer than two periods of 11"
    with pytest.raises(UsageError, match="a period must be at least 1 event"):
        found(events(), period=0)
    with pytest.raises(UsageError, match="a period, not both"):
        found(events(), period=3, annotation="x")


def test_very_many_steps_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_STEPS", 4)
    steps = found(events(), period=2)
    assert cuts(steps) == [(0, 6), (6, 12), (12, 18)]
    assert steps.source is not None
    assert steps.source.taken_together == 3
    made = events()
    for k in range(9):
        marked(made, f"ProfilerStep#{k}", (20 * k + 5, 20 * k + 24))
    steps = found(made)
    assert cuts(steps) == [(1, 7), (7, 13), (13, 19)]
    assert steps.pieces[0].name == "ProfilerStep#0"


def test_windows_have_almost_equal_lengths() -> None:
    snap = mr.open(build.dump(events().build()))
    assert cuts(windows(usage_of(snap), 3)) == [(0, 6), (6, 13), (13, 20)]
    assert windows(usage_of(snap), 21).missing == "20 events are too few to divide into 21 windows"


def test_message_says_how_to_mark_steps() -> None:
    assert found(SnapshotBuilder().segment(1 << 30, 1 << 21)).missing == "no events were recorded"
    none = found(SnapshotBuilder().event("snapshot", 0, 0)).missing
    assert none.startswith("no allocation was recorded; call _record_memory_history() before")


def test_short_trace_is_one_step() -> None:
    steps = found(events())
    assert cuts(steps) == [(0, 20)]
    assert steps.source is not None
    assert (steps.source.found_by, steps.source.score) == ("whole", 0.0)
    # A trace that allocates much more than it ever holds isn't a single step.
    dice = random.Random(1)
    made = SnapshotBuilder()
    for _ in range(300):
        size = 512 * dice.randrange(1, 99)
        made.alloc(1 << 20, size, frames=[("f", "a.py", dice.randrange(60))]).free(1 << 20, size)
    steps = found(made)
    assert steps.source is None
    assert "the trace doesn't repeat like steps" in steps.missing
    assert "torch.profiler.record_function" in steps.missing


def test_single_annotation_marks_one_step() -> None:
    assert cuts(found(marked(events(), "ProfilerStep#1", (15, 55)))) == [(2, 6)]
    # The step ends with the optimizer's last event; later events aren't part of it.
    steps = found(marked(events(), "Optimizer.step#A", (101, 145)))
    assert cuts(steps) == [(0, 15)]
    assert steps.pieces[0].name == "Optimizer.step#A"
    steps = found(marked(events(), "Optimizer.step#A", (51, 65), (101, 145)))
    assert cuts(steps) == [(0, 7), (7, 15)]


OPTIM = ("wrapper", "/site-packages/torch/optim/optimizer.py", 493)
MAIN = ("main", "train.py", 9)


def trained(
    steps: int, *, batches: int = 1, optimizers: int = 1, extra: int = 0, zero: bool = False
) -> tuple[SnapshotBuilder, list[int]]:
    """Build a training loop whose optimizer is visible only in stacks.

    Return it with the event number at which each iteration ends. Another thread makes `extra`
    allocations while the optimizer steps. With `zero`, the optimizer allocates nothing, and its
    only events are zero_grad()'s frees.
    """
    made, ends, at = SnapshotBuilder(), [], 1 << 30
    for _ in range(steps):
        for k in range(batches * 20):
            at += 1 << 16
            frames = [(f"layer{k % 5}", "model.py", k % 5), ("forward", "model.py", 1), MAIN]
            made.alloc(at, 4096, frames=frames)
            if k % 20:
                made.free(at, 4096)
        for n in range(optimizers):
            call = (f"step{n}", "train.py", 20 + n)
            for k in range(6):
                at += 1 << 16
                if not zero:
                    frames = [("step", "/torch/optim/adamw.py", k), OPTIM, call, MAIN]
                    made.alloc(at, 512, frames=frames).free(at, 512, frames=frames)
                if k < extra:
                    made.alloc(at, 512, frames=[("fetch", "data.py", 3)]).free(at, 512)
        if zero:
            made.alloc(1 << 20, 512, frames=[("grad", "model.py", 3)])
            frames = [("zero_grad", "/torch/optim/optimizer.py", 1100), MAIN]
            made.free(1 << 20, 512, frames=frames)
        ends.append(len(made.traces[0]))
    return made, ends


@pytest.mark.parametrize("how", [{}, {"batches": 4}, {"optimizers": 2}, {"zero": True}])
@pytest.mark.parametrize("extra", [0, 2])
def test_steps_end_with_the_optimizers_step(how: dict[str, Any], extra: int) -> None:
    made, ends = trained(7, extra=extra, **how)
    steps = found(made)
    assert steps.source is not None
    assert steps.source.found_by == "optimizer"
    assert steps.source.name == ("zero_grad" if "zero" in how else "step")
    assert len(steps.pieces) == 6
    if extra == 0 and "optimizers" not in how:
        assert cuts(steps) == list(pairwise(ends))


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_optimizer_steps_start_with_the_trace(count: int) -> None:
    made, ends = trained(count)
    assert cuts(found(made)) == list(pairwise([0, *ends]))


def test_callbacks_of_the_optimizer_belong_to_the_program() -> None:
    """A closure runs the forward and backward passes inside step(), as Lightning does."""
    made = SnapshotBuilder()
    for _ in range(6):
        inside = [OPTIM, ("fit", "train.py", 20), MAIN]
        for n in range(10):
            frames = [("loss", "model.py", n), ("closure", "loop.py", 5), *inside]
            made.alloc(1 << 20, 4096, frames=frames).free(1 << 20, 4096)
        frames = [("step", "/torch/optim/sgd.py", 3), *inside]
        made.alloc(2 << 20, 512, frames=frames).free(2 << 20, 512)
    # The free that follows the optimizer's only allocation is the first event of the next step.
    assert cuts(found(made)) == [(33 * k, 33 * (k + 1)) for k in range(1, 6)]


def test_stacks_tell_optimizers_of_the_same_name_apart() -> None:
    made, ends = trained(7, optimizers=2)
    for k, event in enumerate(made.traces[0]):
        event["time_us"] = START_US + 10 * k
    for end in ends:
        marked(made, "Optimizer.step#AdamW.step", (10 * end - 239, 10 * end - 121))
        marked(made, "Optimizer.step#AdamW.step", (10 * end - 119, 10 * end - 5))
    steps = found(made)
    assert (steps.source and steps.source.found_by, len(steps.pieces)) == ("optimizer", 6)


def worked(*works: int, optimizer: int = 1) -> SnapshotBuilder:
    """Make this many allocations before each optimizer step, all without stacks."""
    made, at = SnapshotBuilder(), 0
    for work in works:
        for _ in range(work + optimizer):
            made.alloc(1 << 20, 512, time_us=START_US + 10 * at)
            made.free(1 << 20, 512, time_us=START_US + 10 * at + 1)
            at += 1
        marked(made, "Optimizer.step#Adam.step", (10 * (at - optimizer) - 5, 10 * at - 5))
    return made


def found_by(made: SnapshotBuilder) -> tuple[str | None, int]:
    steps = found(made)
    return steps.source.found_by if steps.source else None, len(steps.pieces)


def test_optimizers_in_backward_hooks_step_together() -> None:
    """Each of six parameters has its own optimizer, so a step is a whole backward pass."""
    assert found_by(worked(*[30, 2, 1, 3, 2, 1] * 12)) == ("annotation", 11)


def test_alternating_indistinguishable_optimizers_make_steps_a_guess() -> None:
    kinds = {found_by(worked(*works))[0] for works in ([30, 20] * 12, [30, 20, 25] * 12)}
    assert "annotation" not in kinds


def test_steps_of_one_optimizer_with_uneven_work_are_certain() -> None:
    assert found_by(worked(*[30] * 24)) == ("annotation", 23)
    assert found_by(worked(*[30, 30, 30, 30, 130] * 6)) == ("annotation", 29)  # it evaluates
    lengths = random.Random(0)
    assert found_by(worked(*(lengths.randint(10, 90) for _ in range(24)))) == ("annotation", 23)


def doubt_of(made: SnapshotBuilder) -> str | None:
    source = found(made).source
    assert source is not None
    assert source.found_by == "annotation"
    assert (source.score == 1) == (source.doubt is None)
    return source.doubt


def worked_inside(*steps: tuple[int, int]) -> SnapshotBuilder:
    """Make this many allocations before each optimizer step, and this many inside it."""
    made, at = SnapshotBuilder(), 0
    for work, inside in steps:
        for k in range(work + inside):
            size = 512 * (1 + k)
            made.alloc(1 << 20, size, time_us=START_US + 10 * at)
            made.free(1 << 20, size, time_us=START_US + 10 * at + 1)
            at += 1
        marked(made, "Optimizer.step#Adam.step", (10 * (at - inside) - 5, 10 * at - 5))
    return made


def test_occasional_optimizer_of_the_same_name_makes_steps_a_guess() -> None:
    every, seldom = (24, 4), (15, 2)
    steps = [(24, 12), *[every] * 9, (15, 6), *([every] * 10 + [seldom]) * 5, *[every] * 4]
    assert doubt_of(worked_inside(*steps)) == "several_optimizers"
    # Two similar networks have an optimizer each. Each optimizer creates its state once.
    assert doubt_of(worked_inside((24, 12), (24, 12), *[every] * 30)) == "several_optimizers"


def test_one_optimizer_makes_steps_certain() -> None:
    every = (24, 4)
    assert doubt_of(worked_inside((24, 12), *[every] * 30)) is None
    # An evaluation runs now and then. Below: some layers are frozen at first, and batches differ.
    assert doubt_of(worked_inside((24, 12), *([every] * 9 + [(90, 4)]) * 4)) is None
    # Experts get their optimizer state when they're first used.
    assert doubt_of(worked_inside((24, 12), *([every] * 3 + [(24, 6)]) * 8)) is None
    unfrozen = [(24, 12), *[every] * 9, (27, 6), *[(27, 5)] * 9, (30, 7), *[(30, 6)] * 9]
    assert doubt_of(worked_inside(*unfrozen)) is None
    lengths = random.Random(0)
    assert doubt_of(worked_inside(*((lengths.randint(10, 90), 4) for _ in range(24)))) is None


@pytest.mark.parametrize("left_out", [0, 1, 2])
@pytest.mark.parametrize("first", [True, False])
def test_steps_skipped_by_a_scaler_make_steps_a_guess(left_out: int, first: bool) -> None:
    made, at = SnapshotBuilder(), 0
    for step in range(24):
        for k in range(24):
            size = 512 * (1 + k)
            made.alloc(1 << 20, size, time_us=START_US + 10 * at)
            made.free(1 << 20, size, time_us=START_US + 10 * at + 1)
            at += 1
        begins = 0 if first else 10
        if not begins <= step < begins + left_out:
            made.alloc(1 << 20, 512, time_us=START_US + 10 * at)
            made.free(1 << 20, 512, time_us=START_US + 10 * at + 1)
            at += 1
            marked(made, "Optimizer.step#Adam.step", (10 * at - 15, 10 * at - 5))
    assert doubt_of(made) == ("left_out" if left_out else None)


def test_marks_with_dropped_events_do_not_merge_other_steps() -> None:
    made = worked(*[1] * 12, optimizer=40)
    marked(made, "Optimizer.step#Adam.step", (-40, -30), (-20, -10))
    assert found_by(made) == ("annotation", 11)


def test_work_may_be_inside_the_step() -> None:
    """A closure allocates most memory inside the optimizer's step."""
    assert found_by(worked(*[1] * 12, optimizer=40)) == ("annotation", 11)


@pytest.mark.parametrize("told", [True, False])
def test_annotations_take_precedence_over_optimizers_but_not_over_explicit_steps(
    told: bool,
) -> None:
    made = marked(events(), "ProfilerStep#0", (-5, 75))
    whole = marked(made, "ProfilerStep#1", (75, 155)).build()
    whole["memreplay"] = {"steps": [[0, 4, 8, 12, 16]], **({"steps_told": True} if told else {})}
    snap = mr.open(build.dump(whole))
    steps = find_steps(snap, usage_of(snap))
    kind = "recorder" if told else "annotation"
    assert (steps.source and steps.source.found_by, len(steps.pieces)) == (kind, 4 if told else 2)
    # Without annotations, the recorder's steps are used.
    del whole["external_annotations"]
    snap = mr.open(build.dump(whole))
    assert len(find_steps(snap, usage_of(snap)).pieces) == 4


@pytest.mark.parametrize(
    "options, kind, least",
    [
        ({"annotations": "profiler"}, "annotation", 60),
        ({"annotations": "optimizer"}, "annotation", 59),
        ({"annotations": "none"}, "optimizer", 59),
        ({"annotations": "none", "stacks": False}, "usage", 55),
    ],
)
def test_steps_of_a_training_run_are_found(
    options: dict[str, object], kind: str, least: int
) -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=60, **options)))  # type: ignore[arg-type]
    steps = find_steps(snap, usage_of(snap))
    assert steps.source is not None
    assert steps.source.found_by == kind
    assert least <= len(steps.pieces) <= 66


def served(loop_in: str) -> SnapshotBuilder:
    """Record 60 requests to a server. The responses stay live for a while. `loop_in` is the file
    that contains the loop.
    """
    made = SnapshotBuilder()
    held: list[tuple[int, int]] = []
    for n in range(60):
        for k in range(8):
            line = 10 if k else 11
            frames = [(f"op{k}", "/lib/python3/site-packages/net/ops.py", k)]
            frames += [("loop", loop_in, line), ("main", "/home/ana/serve.py", 3)]
            size = (1 + n * 37 % 64) << 16 if k == 7 else 1024 * (k + 1)
            one = (8 * n + k) << 24, size
            made.alloc(*one, frames=frames)
            if k < 7:
                made.free(*one)
            else:
                held.append(one)
        if len(held) > 4:
            made.free(*held.pop(n * 7 % 4))
    return made


def test_server_requests_are_steps() -> None:
    steps = found(served("/home/ana/serve.py"))
    assert steps.source is not None
    assert steps.source.found_by == "stacks"
    assert 57 <= len(steps.pieces) <= 60


def test_loop_inside_a_library_has_no_steps() -> None:
    steps = found(served("/lib/python3/site-packages/net/generate.py"))
    assert steps.source is None or steps.source.found_by == "whole"
