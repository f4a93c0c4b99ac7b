"""Tests of analysis/leaks/judging.py: finding a planted leak, and nothing else."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

import leaky
import memreplay as mr
from memreplay.analysis.leaks import judging
from memreplay.analysis.leaks.records import DeviceLeaks
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.leaks.result import LeaksReport
from memreplay.commands.leaks.text import grew_late
from memreplay.errors import UsageError
from memreplay.snapshot.cards import context_bytes
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PLACE = "train_step /home/ana/tiny/train.py:54"


@cache
def training(**options: Any) -> bytes:
    return leaky.snapshot_bytes(leaky.Options(**options))


def device_of(data: bytes, **options: Any) -> DeviceLeaks:
    (device,) = leaks_report(mr.open(data), **options).devices
    return device


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("annotations", ["profiler", "optimizer", "none"])
def test_planted_leak_is_found(annotations: str, seed: int) -> None:
    device = device_of(training(annotations=annotations, seed=seed))
    assert device.step_count >= 199
    (leak,) = device.leaks
    assert leak.label == PLACE
    assert leak.bytes_per_step == device.leak_bytes_per_step == 64 * KIB
    later = device.step_count - device.warm_up_steps
    assert leak.rises == later
    assert leak.end_bytes - leak.warm_bytes == leak.growth_bytes == later * 64 * KIB
    assert leak.old_count == later - 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("annotations", ["profiler", "optimizer", "none"])
def test_nothing_leaks_without_the_planted_leak(annotations: str, seed: int) -> None:
    report = leaks_report(mr.open(training(annotations=annotations, seed=seed, leak_bytes=0)))
    (device,) = report.devices
    assert device.leaks == ()
    assert (device.leaks_total, device.leak_bytes_per_step, device.whole_bytes_per_step) == (
        0,
        0,
        0,
    )
    assert not report.leaking
    assert device.runs_out is None


def test_one_time_growth_is_not_a_leak() -> None:
    device = device_of(training())
    once = {one.label: (one.growth_bytes, one.until_step) for one in device.once}
    assert once["forward /home/ana/tiny/model.py:23"] == (8 * MIB + 128 * KIB, 1)  # cuBLAS
    assert once["train_step /home/ana/tiny/train.py:48"][1] == 1  # the optimizer's state
    assert once["AccumulateGrad (autograd)"][1] == 1
    assert once["rotary /home/ana/tiny/model.py:14"][1] <= 10
    assert once["add /home/ana/tiny/data.py:61"] == (2 * MIB, 121)
    assert once["log /home/ana/tiny/train.py:63"] == (20 * KIB, 5)


@pytest.mark.parametrize("annotations", ["profiler", "none"])
def test_leak_in_every_tenth_step_is_found(annotations: str) -> None:
    device = device_of(training(leak_every=10, annotations=annotations))
    (leak,) = device.leaks
    assert leak.label == PLACE
    assert leak.bytes_per_step == pytest.approx(6554, rel=0.1)


@pytest.mark.parametrize("first", [75, 100, 130, 150])
def test_leak_that_starts_late_is_found_from_its_start(first: int) -> None:
    device = device_of(training(leak_from=first))
    (leak,) = device.leaks
    assert (leak.label, leak.bytes_per_step) == (PLACE, 64 * KIB)
    assert leak.since_step >= device.warm_up_steps
    assert (leak.since_step > device.warm_up_steps) == (first > 75)
    made = 200 - max(first, leak.since_step)
    assert leak.rises == made
    assert device.leak_bytes == leak.growth_bytes == made * 64 * KIB


@pytest.mark.slow
def test_growth_that_starts_too_late_is_not_judged() -> None:
    assert device_of(training(leak_from=185)).leaks == ()
    assert device_of(training(steps=30, leak_from=22)).leaks == ()  # 8 steps


@pytest.mark.parametrize("seed", [22, 28])
def test_noise_around_a_single_growing_stack_is_not_alternation(seed: int) -> None:
    # A buffer grows by 1 MiB in the middle, and little else grows.
    made = training(steps=20, leak_bytes=0, evaluate_every=25, seed=seed)
    assert not leaks_report(mr.open(made)).leaking


@pytest.mark.parametrize("leak", [0, 64 * KIB])
def test_without_stacks_all_memory_is_one_group(leak: int) -> None:
    device = device_of(training(annotations="none", stacks=False, leak_bytes=leak))
    assert bool(device.leaks_total) == bool(leak)


@pytest.mark.parametrize("leak", [0, 64 * KIB])
def test_windows_can_replace_steps(leak: int) -> None:
    device = device_of(training(leak_bytes=leak), windows=25)
    assert device.step_source is not None
    assert (device.step_source.found_by, device.step_count) == ("windows", 25)
    assert [one.label for one in device.leaks] == [PLACE] * bool(leak)


def test_windows_at_the_end_that_are_not_judged_are_counted() -> None:
    made = SnapshotBuilder()
    for k in range(100):
        made.alloc((k + 1) << 20, KIB)
    for k in range(96, 100):
        made.free((k + 1) << 20, KIB)
    made.free(1 << 20, KIB)
    device = device_of(build.dump(made.build()), windows=105)
    assert (device.step_count, device.exit_steps, device.end_bytes) == (105, 0, 95 * KIB)
    for k in range(1, 96):
        made.free((k + 1) << 20, KIB)
    device = device_of(build.dump(made.build()), windows=20)
    assert device.step_count + device.exit_steps == 20
    assert device.exit_steps == 5
    assert device.last_step_event == device.events * 3 // 4 - 1


@pytest.mark.parametrize("steps", [2, 4])
def test_too_few_steps_need_more_steps(steps: int) -> None:
    """Windows would miss growth in only a few steps."""
    device = device_of(training(steps=steps, annotations="profiler"))
    assert device.not_judged_reason == (
        f"{steps} steps are too few to distinguish a leak from warm-up; record 5 or more"
    )


@pytest.mark.parametrize("measure", ["held", "active", "allocated"])
def test_leak_is_found_in_other_measures(measure: str) -> None:
    (leak,) = device_of(training(), measure=measure).leaks
    assert leak.bytes_per_step == 64 * KIB


def test_smaller_leaks_than_the_minimum_are_ignored() -> None:
    assert device_of(training(), min_bytes=64 * KIB).leaks_total == 1
    assert device_of(training(), min_bytes=64 * KIB + 1).leaks_total == 0


def test_old_allocations_at_the_end_are_counted() -> None:
    few, many = (device_of(training(), older_than=n) for n in (100, 0))
    assert few.leaks[0].old_count == 134 - 100
    assert many.leaks[0].old_count == 134
    assert many.old_count > few.old_count
    assert device_of(training(), older_than=10**6).old_count == 0


def test_out_of_memory_is_projected() -> None:
    device = device_of(training(), total_memory=GIB)
    assert device.runs_out is not None
    peak = mr.open(training()).replay().peak.bytes
    usable = GIB - context_bytes(GIB)
    assert device.runs_out.step_count == (usable - peak) // (64 * KIB)
    assert device.step_us is not None
    assert device.runs_out.after_us == device.runs_out.step_count * device.step_us
    assert device_of(training(), total_memory=MIB).runs_out.step_count == 0  # type: ignore[union-attr]
    assert device_of(training()).runs_out is None


@pytest.mark.parametrize("free", [(5,), (5, 3), (3, 5), (3, 5, 4)])
def test_oom_event_gives_the_capacity(free: tuple[int, ...]) -> None:
    snapshot = leaky.snapshot(leaky.Options(steps=20))
    reserved = sum(one["total_size"] for one in snapshot["segments"])  # type: ignore[attr-defined]
    for mib in free:  # the event with the most memory counts
        oom = {"action": "oom", "size": GIB, "device_free": mib * MIB, "stream": 0}
        snapshot["device_traces"][0].append(oom)  # type: ignore[index]
    device = device_of(build.dump(snapshot))
    assert device.runs_out is not None
    assert (device.runs_out.total_memory_bytes, device.runs_out.given) == (
        reserved + 5 * MIB,
        False,
    )
    # The driver's free memory already excludes the CUDA context.
    assert (device.runs_out.usable_bytes, device.runs_out.total_memory_source) == (
        reserved + 5 * MIB,
        "oom",
    )


@pytest.mark.parametrize("noted", [False, True])
def test_projection_matches_a_simulation_of_the_card(noted: bool) -> None:
    snapshot = leaky.snapshot(leaky.Options(steps=20))
    if noted:
        snapshot["memreplay"] = {"cards": [{"name": "NVIDIA L4", "total_bytes": GIB}]}
    snap = mr.open(build.dump(snapshot))
    (device,) = leaks_report(snap, total_memory=None if noted else GIB).devices
    (simulated,) = mr.simulate(snap, total_memory=() if noted else GIB).devices
    assert device.runs_out is not None
    assert simulated.program_memory_bytes is not None
    assert device.runs_out.total_memory_bytes == GIB
    assert device.runs_out.usable_bytes == simulated.program_memory_bytes < GIB
    assert device.runs_out.total_memory_source == ("recorded" if noted else "given")
    left = simulated.program_memory_bytes - device.runs_out.peak_bytes
    assert device.runs_out.step_count == left // (64 * KIB)


def test_context_size_of_npus_is_unknown() -> None:
    snapshot = leaky.snapshot(leaky.Options(steps=20))
    snapshot["allocator_settings"] = {"PYTORCH_NPU_ALLOC_CONF": ""}
    device = device_of(build.dump(snapshot), total_memory=GIB)
    assert device.runs_out is not None
    assert device.runs_out.usable_bytes == device.runs_out.total_memory_bytes == GIB


def test_growth_that_alternates_between_stacks_shows_in_the_total() -> None:
    made = SnapshotBuilder()
    for k in range(40):
        made.alloc((k + 1) << 20, KIB, frames=[("f", "a.py", k)])
    device = device_of(build.dump(made.build()), period=1)
    assert (device.leaks_total, device.whole_bytes_per_step) == (0, KIB)
    assert device.once_total == 33


# The other judged steps add 26 KiB, so 26 KiB or less isn't more than half of the growth.
@pytest.mark.parametrize("bulk, rate", [(20, KIB), (26, KIB), (27, 0), (30, 0)])
def test_growth_is_not_alternating_if_one_stack_dominates(bulk: int, rate: int) -> None:
    made = SnapshotBuilder()
    for k in range(40):
        size = (bulk if k == 25 else 1) * KIB
        made.alloc((k + 1) << 20, size, frames=[("f", "a.py", k)])
    device = device_of(build.dump(made.build()), period=1)
    assert bool(device.whole_bytes_per_step) == bool(rate)


def test_out_of_memory_is_projected_from_the_peaks_of_judged_steps() -> None:
    made = SnapshotBuilder().alloc(1 << 30, MIB).free(1 << 30, MIB)
    for k in range(30):
        made.alloc((k + 1) << 20, KIB, frames=[("f", "a.py", 1)])
        made.alloc(1 << 30, 8 * KIB).free(1 << 30, 8 * KIB)
    device = device_of(build.dump(made.build()), period=4, total_memory=2 * MIB)
    assert device.runs_out is not None
    assert device.runs_out.peak_bytes < MIB


def test_five_steps_are_the_minimum() -> None:
    # A buffer of five entries isn't full yet.
    labels = [one.label for one in device_of(training(steps=5)).leaks]
    assert labels == [PLACE, "log /home/ana/tiny/train.py:63"]
    few = device_of(training(steps=4))
    assert (few.judged, few.leaks, few.whole_bytes_per_step) == (False, (), 0)
    assert (few.not_judged_reason or "").startswith(
        "4 steps are too few to distinguish a leak from warm-up; record 5"
    )
    # Memory that survived is reported anyway.
    stayed = {one.label: one.growth_bytes for one in few.once}
    assert stayed[PLACE] == 4 * 64 * KIB
    assert few.once_bytes == few.end_bytes - few.start_bytes
    assert device_of(training(steps=4), windows=5).step_count == 5


def test_single_step_is_not_judged() -> None:
    one = device_of(training(steps=1, evaluate_every=1))
    assert (one.step_count, one.judged) == (1, False)
    assert (one.not_judged_reason or "").startswith(
        "1 step is too few to distinguish a leak from warm-up"
    )
    with pytest.raises(UsageError, match="can't look for leaks: no events"):
        device_of(build.dump(SnapshotBuilder().segment(1 << 30, 1 << 21).build()))
    with pytest.raises(UsageError, match="no annotation 'x'"):
        device_of(training(), annotation="x")


def test_usage_errors_are_raised() -> None:
    with pytest.raises(UsageError, match="leaks can't be found in reserved memory"):
        device_of(training(), measure="reserved")
    with pytest.raises(UsageError, match="windows replace steps"):
        device_of(training(), windows=20, period=5)


def test_steps_are_merged_for_very_many_stacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judging, "MOST_CELLS", 1)
    device = device_of(training())
    assert device.step_source is not None
    assert (device.step_count, device.step_source.taken_together) == (40, 5)
    assert device.leaks[0].bytes_per_step == 5 * 64 * KIB


def test_top_limits_the_rows() -> None:
    device = device_of(training(), top=1)
    assert (len(device.once), device.once_total) == (1, 7)
    assert device.once_bytes == sum(one.growth_bytes for one in device_of(training()).once)


def test_filters_do_not_change_the_steps() -> None:
    """The whole trace is long enough for windows, but the filtered allocations wouldn't be."""
    dice = random.Random(1)
    builder = SnapshotBuilder()
    for k in range(1_500):
        size = dice.randrange(1, 2_000)
        work: list[FrameSpec] = [("work", "work.py", dice.randrange(100))]
        builder.alloc(512, size, frames=work).free(512, size, frames=work)
        if dice.random() < 0.1:
            builder.alloc((k + 2) << 9, 8, frames=[("keep", "keep.py", 1)])
    snap = mr.open(build.dump(builder.build()))
    whole = leaks_report(snap).devices[0]
    (left,) = leaks_report(snap, filters=Filters(include=("keep",))).devices
    assert whole.step_source is not None
    assert (left.step_source, left.step_count) == (whole.step_source, whole.step_count)
    assert left.leaks == whole.leaks
    assert len(left.leaks) == 1
    nothing = leaks_report(snap, filters=Filters(exclude=("keep",)), by="file").devices[0]
    assert (nothing.leaks, nothing.whole_bytes_per_step, nothing.step_count) == (
        (),
        0,
        whole.step_count,
    )


class Loop:
    """A builder of steps that end with the optimizer. Each allocation is known by its line."""

    def __init__(self) -> None:
        self.made = SnapshotBuilder()
        self.next = 1 << 40
        self.live: dict[int, list[tuple[int, int]]] = {}

    def keep(self, line: int, size: int) -> None:
        self.made.alloc(self.next, size, frames=[("train", "/home/ana/train.py", line)])
        self.live.setdefault(line, []).append((self.next, size))
        self.next += 1 << 30

    def let_go(self, line: int, which: int = 0) -> None:
        self.made.free(*self.live[line].pop(which))

    def work(self, size: int = MIB) -> None:
        self.keep(1, size)
        self.let_go(1)
        optimizer: list[FrameSpec] = [
            ("step", "/v/torch/optim/adam.py", 200),
            ("train", "/home/ana/train.py", 2),
        ]
        self.made.alloc(self.next, KIB, frames=optimizer).free(self.next, KIB)
        self.next += 1 << 30

    def report(self) -> DeviceLeaks:
        return device_of(build.dump(self.made.build()))


def test_replay_buffer_is_not_a_leak() -> None:
    loop = Loop()
    for _ in range(100):
        loop.keep(10, 64 * KIB)
    for _ in range(60):
        loop.let_go(10)
        loop.keep(11, 64 * KIB)
        loop.work()
    device = loop.report()
    assert (device.leaks, device.leaks_total, device.whole_bytes_per_step) == ((), 0, 0)
    assert device.runs_out is None
    assert [one.frames[0].line for one in device.once] == [11]


def test_full_buffer_leaks_the_growth_of_its_entries() -> None:
    """In its first steps, the buffer drops entries from before the recording."""
    loop = Loop()
    loop.live[10] = [((1 << 39) + (i << 30), (64 + 4 * i) * KIB) for i in range(20)]
    for i in range(20, 65):
        loop.keep(10, (64 + 4 * i) * KIB)
        loop.let_go(10)
        loop.work()
    device = loop.report()
    (leak,) = device.leaks
    assert leak.bytes_per_step == pytest.approx(80 * KIB, abs=KIB)
    assert leak.made_up_bytes_per_step > 0
    assert device.leak_bytes == device.end_bytes - device.warm_bytes


def test_larger_last_step_is_not_a_leak() -> None:
    loop = Loop()
    for k in range(60):
        loop.keep(10, (8 + k) * KIB)
        if k:
            loop.let_go(10)
        loop.work((100 + 20 * k) * KIB)
    device = loop.report()
    assert (device.leaks, device.whole_bytes_per_step) == ((), 0)
    # 20 KiB of temporary memory, and 1 KiB of the next tensor, which is allocated before the
    # previous one is freed.
    assert device.growing_bytes_per_step == 21 * KIB


def test_state_that_each_step_replaces_with_a_larger_one_leaks() -> None:
    loop = Loop()
    for k in range(60):
        loop.keep(10, (8 + k) * KIB)
        if k:
            loop.let_go(10)
        loop.work()
    device = loop.report()
    (leak,) = device.leaks
    assert (leak.bytes_per_step, leak.replaced) == (KIB, True)
    assert device.growing_bytes_per_step == 0


def train_one_more(loop: Loop, size: int) -> None:
    """Start training one more parameter: allocate its gradient and Adam's two state tensors."""
    node = "torch::autograd::generated::AddmmBackward0::apply(int)"
    bias = "torch::autograd::generated::SumBackward0::apply(int)"
    stacks: list[list[FrameSpec]] = [
        [(node, "??", 0)],
        [("_init_group", "/v/torch/optim/adam.py", 175), ("train", "/home/ana/train.py", 20)],
        [("_init_group", "/v/torch/optim/adam.py", 179), ("train", "/home/ana/train.py", 20)],
    ]
    for frames in stacks:
        loop.made.alloc(loop.next, size, frames=frames)
        loop.next += 1 << 30
    loop.made.alloc(loop.next, KIB, frames=[(bias, "??", 0)])
    loop.next += 1 << 30


@pytest.mark.parametrize("every", [1, 5])
def test_unfrozen_layers_are_not_a_leak(every: int) -> None:
    loop = Loop()
    loop.keep(9, 100 * MIB)
    for i in range(60):
        if i % every == 0:
            train_one_more(loop, MIB)
        loop.work()
    device = loop.report()
    assert (device.leaks, device.leaks_total, device.leak_bytes_per_step) == ((), 0, 0)
    assert (device.whole_bytes_per_step, device.growing_bytes_per_step) == (0, 0)
    assert [one.odds for one in device.once if grew_late(one, device)] == [0.0, 0.0]
    last = len(device.once)
    assert device.once_bytes == sum(one.growth_bytes for one in device.once[:last])


def test_leaking_parameters_leak_their_state_too() -> None:
    loop = Loop()
    for _ in range(60):
        loop.keep(12, MIB)
        train_one_more(loop, MIB)
        loop.work()
    device = loop.report()
    assert device.leaks_total == 5
    assert device.leak_bytes_per_step == 4 * MIB + KIB


def test_leak_next_to_unfrozen_layers_is_found() -> None:
    loop = Loop()
    for i in range(60):
        if i % 5 == 0:
            train_one_more(loop, 10 * MIB)
        loop.keep(30, KIB)
        loop.work()
    device = loop.report()
    assert [one.label for one in device.leaks] == ["train /home/ana/train.py:30"]
    assert device.leak_bytes_per_step == KIB


class BareLoop:
    """A builder like Loop, but without stacks. An annotation marks the optimizer's work."""

    def __init__(self) -> None:
        self.made = SnapshotBuilder()
        self.next = 1 << 40

    def keep(self, size: int) -> None:
        self.made.alloc(self.next, size)
        self.next += 1 << 30

    def work(self, size: int = MIB) -> None:
        for _ in range(10):
            self.made.alloc(self.next, size).free(self.next, size)

    def optimize(self, *state: int) -> None:
        self.made.annotation("Optimizer.step#AdamW.step", "START")
        self.work(KIB)
        for size in state:
            self.keep(size)
        self.made.annotation("Optimizer.step#AdamW.step", "END")

    def report(self) -> LeaksReport:
        return leaks_report(mr.open(build.dump(self.made.build())), total_memory=GIB)


def test_without_stacks_growth_outside_the_optimizer_is_certain() -> None:
    loop = BareLoop()
    for i in range(60):
        loop.work()
        loop.keep(3 * KIB)
        # At the same time, layers are unfrozen until the end.
        loop.optimize(*[MIB, MIB] * (i % 5 == 0))
    report = loop.report()
    (device,) = report.devices
    assert (device.leak_bytes_per_step, device.unless, report.leaking) == (3 * KIB, None, True)
    (leak,) = device.leaks
    assert (leak.label, leak.rises) == ("(recorded without a stack)", 40)
    assert [one.label for one in device.once] == ["(without a stack, in Optimizer.step)"]
    assert device.growing_bytes_per_step == 0
    assert device.runs_out is not None


@pytest.mark.parametrize("gradients", [0, MIB])
@pytest.mark.parametrize("every", [1, 5])
def test_without_stacks_late_state_is_only_a_possible_leak(every: int, gradients: int) -> None:
    loop = BareLoop()
    for i in range(60):
        trained = i % every == 0
        loop.work((10 + i) * MIB if trained else MIB)
        if gradients and trained:
            loop.keep(gradients)
        loop.optimize(*[MIB, MIB] * trained)
    report = loop.report()
    (device,) = report.devices
    assert device.leak_bytes_per_step == pytest.approx((2 * MIB + gradients) / every, rel=0.25)
    assert (device.unless, device.guessed, device.grows) == ("late_state", False, True)
    assert (report.leaking, device.runs_out, device.growing_bytes_per_step) == (False, None, 0)


def test_short_recordings_are_reported() -> None:
    loop = Loop()
    for k in range(18):
        if k % 6 == 5:
            loop.keep(10, KIB)
        loop.work()
    device = loop.report()
    assert (device.leaks, device.step_count) == ((), 17)
    assert device.unsure is not None
    assert "12 judged steps are few" in device.unsure
    for _ in range(40):
        loop.work()
    assert loop.report().unsure is None


def test_end_of_the_program_is_not_judged() -> None:
    loop = Loop()
    for _ in range(40):
        loop.keep(10, 8 * KIB)
        loop.work()
    while loop.live[10]:
        loop.let_go(10)
    device = loop.report()
    (leak,) = device.leaks
    assert leak.bytes_per_step == 8 * KIB
