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
    """An allocation each ten microseconds."""
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


def test_profiler_steps_go_from_start_to_end() -> None:
    made = marked(events(), "ProfilerStep#3", (15, 55))
    marked(made, "ProfilerStep#4", (55, 95))
    steps = found(marked(made, "ProfilerStep#5", (105, None)))
    assert cuts(steps) == [(2, 6), (6, 10)]
    assert [piece.name for piece in steps.pieces] == ["ProfilerStep#3", "ProfilerStep#4"]
    assert steps.pieces[0].start_us == START_US + 15
    assert steps.source is not None
    assert (steps.source.kind, steps.source.name) == ("annotation", "ProfilerStep")
    assert steps.source.score == 1


def test_an_event_at_the_very_edge_belongs_to_the_step_that_ends() -> None:
    made = marked(events(), "ProfilerStep#0", (0, 50))
    assert cuts(found(marked(made, "ProfilerStep#1", (50, 90)))) == [(0, 6), (6, 10)]


def test_a_step_whose_first_events_were_dropped_is_none() -> None:
    edges = ((-95, -55), (-55, 35), (35, 65), (65, 95))
    # Another one ended before the first event: the recorder was on, and its events are gone.
    late = SnapshotBuilder().free(1 << 30, 512, time_us=START_US)
    late.traces[0] += events().traces[0]
    late = marked(late, "ProfilerStep#0", *edges)
    assert cuts(found(late)) == [(6, 9), (9, 12)]
    # Nothing was live before it, so that nothing had happened until then.
    made = marked(events(), "ProfilerStep#0", *edges)
    assert cuts(found(made)) == [(0, 4), (4, 7), (7, 10)]
    # The file says so.
    assert cuts(found(made.settings(trace_alloc_overflowed=True))) == [(4, 7), (7, 10)]
    late.settings(trace_alloc_overflowed=False)
    assert cuts(found(late)) == [(0, 6), (6, 9), (9, 12)]


def test_a_step_without_any_event_is_none() -> None:
    made = marked(events(), "ProfilerStep#0", (15, 55))
    marked(made, "ProfilerStep#1", (61, 69))  # between two events
    marked(made, "ProfilerStep#2", (75, 95))
    assert cuts(found(made)) == [(2, 6), (8, 10)]
    edges = (21, 25), (61, 65), (66, 67), (101, 105)
    assert cuts(found(marked(events(), "Optimizer.step#A", *edges))) == [(3, 7), (7, 11)]


def test_annotations_without_times_say_so() -> None:
    made = marked(events(), "x", (15, 55), (55, 95))
    for event in made.traces[0]:
        del event["time_us"]
    assert "have no times" in found(made, annotation="x").missing


def test_optimizer_steps_go_from_end_to_end() -> None:
    made = marked(events(), "Optimizer.step#AdamW.step", (21, 25), (61, 65), (101, 105))
    marked(made, "Optimizer.step#SGD.step", (31, 35))
    steps = found(made)
    assert cuts(steps) == [(3, 7), (7, 11)]
    assert steps.pieces[0].start_us == START_US + 25


def test_any_annotation_by_its_name_or_what_stands_before_a_hash() -> None:
    made = marked(events(), "decode#a", (5, 45))
    marked(made, "decode#b", (65, 95))
    marked(made, "decoder", (105, 125), (135, 145))
    assert cuts(found(made, annotation="decode")) == [(1, 5), (7, 10)]
    assert cuts(found(made, annotation="decoder")) == [(11, 13), (14, 15)]
    # One step is a step.
    assert cuts(found(made, annotation="decode#a")) == [(1, 5)]
    open_ended = marked(events(), "late", (5, None))
    none = found(open_ended, annotation="late")
    assert none.source is None
    assert "no 'late' annotation is complete" in none.missing
    other = found(made, annotation="step")
    assert other.missing == "device 0 has no annotation 'step'; there are: decode, decoder"
    assert "no annotations" in found(events(), annotation="step").missing


def test_what_a_range_cuts_is_no_step() -> None:
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


def test_a_period() -> None:
    assert cuts(found(events(), period=6)) == [(0, 6), (6, 12), (12, 18)]
    assert found(events(), period=11).missing == "20 events are not two periods of 11"
    with pytest.raises(UsageError, match="1 event or more"):
        found(events(), period=0)
    with pytest.raises(UsageError, match="not by both"):
        found(events(), period=3, annotation="x")


def test_very_many_steps_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_windows() -> None:
    snap = mr.open(build.dump(events().build()))
    assert cuts(windows(usage_of(snap), 3)) == [(0, 6), (6, 13), (13, 20)]
    assert windows(usage_of(snap), 21).missing == "20 events are too few for 21 windows"


def test_nothing_to_go_by() -> None:
    assert found(SnapshotBuilder().segment(1 << 30, 1 << 21)).missing == "no events were recorded"
    none = found(SnapshotBuilder().event("snapshot", 0, 0)).missing
    assert "nothing in the trace repeats" in none
    assert "torch.profiler.record_function" in none


def test_all_of_a_short_trace_is_one_step() -> None:
    steps = found(events())
    assert cuts(steps) == [(0, 20)]
    assert steps.source is not None
    assert (steps.source.kind, steps.source.score) == ("whole", 0.0)
    # One that allocates a lot more than it holds is no single step.
    dice = random.Random(1)
    made = SnapshotBuilder()
    for _ in range(300):
        size = 512 * dice.randrange(1, 99)
        made.alloc(1 << 20, size, frames=[("f", "a.py", dice.randrange(60))]).free(1 << 20, size)
    steps = found(made)
    assert steps.source is None


def test_one_annotation_marks_one_step() -> None:
    assert cuts(found(marked(events(), "ProfilerStep#1", (15, 55)))) == [(2, 6)]
    # From the beginning to where the optimizer is through; what comes after is none of it.
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
    """A loop whose optimizer is seen by its stack alone, and where its turns end.

    `extra` allocations of another thread come while it steps; with `zero` it allocates nothing, and
    what zero_grad() gives back is all there is.
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
def test_steps_end_with_a_turn_of_the_optimizer(how: dict[str, Any], extra: int) -> None:
    made, ends = trained(7, extra=extra, **how)
    steps = found(made)
    assert steps.source is not None
    assert steps.source.kind == "optimizer"
    assert steps.source.name == ("zero_grad" if "zero" in how else "step")
    assert len(steps.pieces) == 6
    if extra == 0 and "optimizers" not in how:
        assert cuts(steps) == list(pairwise(ends))


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_turns_begin_with_the_trace(count: int) -> None:
    made, ends = trained(count)
    assert cuts(found(made)) == list(pairwise([0, *ends]))


def test_a_program_that_the_optimizer_calls_is_none_of_it() -> None:
    """A closure that goes forward and back inside of step(), as Lightning's."""
    made = SnapshotBuilder()
    for _ in range(6):
        inside = [OPTIM, ("fit", "train.py", 20), MAIN]
        for n in range(10):
            frames = [("loss", "model.py", n), ("closure", "loop.py", 5), *inside]
            made.alloc(1 << 20, 4096, frames=frames).free(1 << 20, 4096)
        frames = [("step", "/torch/optim/sgd.py", 3), *inside]
        made.alloc(2 << 20, 512, frames=frames).free(2 << 20, 512)
    # The free after the optimizer's only allocation is the next step's first event.
    assert cuts(found(made)) == [(33 * k, 33 * (k + 1)) for k in range(1, 6)]


def test_marks_of_several_optimizers_of_one_name() -> None:
    made, ends = trained(7, optimizers=2)
    for k, event in enumerate(made.traces[0]):
        event["time_us"] = START_US + 10 * k
    for end in ends:
        marked(made, "Optimizer.step#AdamW.step", (10 * end - 239, 10 * end - 121))
        marked(made, "Optimizer.step#AdamW.step", (10 * end - 119, 10 * end - 5))
    steps = found(made)
    assert (steps.source and steps.source.kind, len(steps.pieces)) == ("optimizer", 6)


def worked(*works: int, optimizer: int = 1) -> SnapshotBuilder:
    """Before each step of an optimizer so many allocations, none of which has a stack."""
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
    return steps.source.kind if steps.source else None, len(steps.pieces)


def test_optimizers_in_hooks_of_the_backward_pass_step_together() -> None:
    """One for each of six parameters: a step of the program is a backward pass."""
    assert found_by(worked(*[30, 2, 1, 3, 2, 1] * 12)) == ("annotation", 11)


def test_optimizers_in_turn_that_nothing_tells_apart_are_no_sure_steps() -> None:
    kinds = {found_by(worked(*works))[0] for works in ([30, 20] * 12, [30, 20, 25] * 12)}
    assert "annotation" not in kinds


def test_one_optimizer_with_uneven_work_is_sure() -> None:
    assert found_by(worked(*[30] * 24)) == ("annotation", 23)
    assert found_by(worked(*[30, 30, 30, 30, 130] * 6)) == ("annotation", 29)  # it evaluates
    lengths = random.Random(0)
    assert found_by(worked(*(lengths.randint(10, 90) for _ in range(24)))) == ("annotation", 23)


def test_the_work_may_be_inside_of_the_step() -> None:
    """A closure's."""
    assert found_by(worked(*[1] * 12, optimizer=40)) == ("annotation", 11)


@pytest.mark.parametrize("told", [True, False])
def test_annotations_come_before_what_optimizers_did_and_after_the_programs_word(
    told: bool,
) -> None:
    made = marked(events(), "ProfilerStep#0", (-5, 75))
    whole = marked(made, "ProfilerStep#1", (75, 155)).build()
    whole["memreplay"] = {"steps": [[0, 4, 8, 12, 16]], **({"steps_told": True} if told else {})}
    snap = mr.open(build.dump(whole))
    steps = find_steps(snap, usage_of(snap))
    kind = "recorder" if told else "annotation"
    assert (steps.source and steps.source.kind, len(steps.pieces)) == (kind, 4 if told else 2)
    # Without any the recorder's are taken.
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
def test_a_training_run(options: dict[str, object], kind: str, least: int) -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=60, **options)))  # type: ignore[arg-type]
    steps = find_steps(snap, usage_of(snap))
    assert steps.source is not None
    assert steps.source.kind == kind
    assert least <= len(steps.pieces) <= 66


def served(loop_in: str) -> SnapshotBuilder:
    """60 requests of a server, which holds their answers for a while; `loop_in` is the file whose
    function loops."""
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


def test_the_requests_of_a_server_are_steps() -> None:
    steps = found(served("/home/ana/serve.py"))
    assert steps.source is not None
    assert steps.source.kind == "stacks"
    assert 57 <= len(steps.pieces) <= 60


def test_a_loop_inside_a_library_has_no_steps() -> None:
    steps = found(served("/lib/python3/site-packages/net/generate.py"))
    assert steps.source is None or steps.source.kind == "whole"
