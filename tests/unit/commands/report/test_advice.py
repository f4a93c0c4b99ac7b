"""Tests of commands/report/advice.py: each recommendation appears above its threshold, but not
below it.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.advising.settings import (
    EXPANDABLE,
    LEAST_SHARE,
    LITTLE_SHARE,
    MUCH_SHARE,
    Tried,
)
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.simulating.editing import Change, Editor
from memreplay.commands.oom.result import Remedy
from memreplay.commands.oom.text import ACTIVATIONS_SHARE
from memreplay.commands.report.advice import (
    FULL_SHARE,
    SAVED_SHARE,
    STATE_SHARE,
    Facts,
    Spot,
    advice_of,
    facts_of,
    step_starts,
)
from memreplay.commands.report.find import overview
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.snapshot.cards import context_bytes
from memreplay.snapshot.model import Frame
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.commands.oom.test_find import fail, machine, scattered

MIB, GIB = 1 << 20, 1 << 30
FACTS = Facts(events=1_000, allocations=500)


def example(name: str, **changes: Any) -> DeviceOverview:
    (one,) = overview(mr.open(ROOT / "tests/data" / f"{name}.pkl.gz")).devices
    return replace(one, **changes)


def names(device: DeviceOverview, facts: Facts = FACTS) -> dict[str, Advice]:
    return {one.name: one for one in advice_of(device, facts)}


def with_category(share: float, name: str, **changes: Any) -> DeviceOverview:
    """Return a device with this share of its peak in one category, the rest in an unknown one."""
    one = example("transformer_step", **changes)
    assert one.caught is not None
    whole = one.peak.peak_bytes
    caught = (replace(one.caught.rules[0], category=name, bytes=round(share * whole)),)
    peak = replace(one.peak, groups=())
    return replace(one, peak=peak, caught=replace(one.caught, rules=caught))


def saving(name: str, share: float, **facts: Any) -> Facts:
    """Return facts in which one alternative saves this share of `with_category`'s peak."""
    whole = example("transformer_step").peak.peak_bytes
    spot = Spot(round(share * whole), round(share * whole))
    return replace(FACTS, forms={name: spot}, **facts)


@pytest.mark.parametrize(
    "name",
    ["attention_scores", "loss", "foreach", "zero_grad", "inference_mode", "no_grad"],
)
def test_alternative_is_recommended_if_it_saves_much(name: str) -> None:
    device = example("transformer_step", caught=None)
    found = names(device, saving(name, SAVED_SHARE + 0.01))[name]
    assert found.saved_bytes == found.bytes == pytest.approx(0.06 * found.of_bytes, rel=1e-6)
    assert name not in names(device, saving(name, SAVED_SHARE - 0.01))
    tiny = replace(device, peak=replace(device.peak, peak_bytes=20 * MIB))
    few = replace(FACTS, forms={name: Spot(10 * MIB, 10 * MIB)})
    assert name not in names(tiny, few)  # half of the peak, but too little to matter


@pytest.mark.parametrize("category", ["activations", "attention"])
def test_checkpointing_is_recommended_for_large_activations(category: str) -> None:
    device = with_category(0.9, category)
    facts = saving("checkpoint", ACTIVATIONS_SHARE + 0.01)
    facts = replace(
        facts, forms={"checkpoint": replace(facts.forms["checkpoint"], categories=(category,))}
    )
    one = names(device, facts)["checkpoint"]
    assert one.bytes == pytest.approx((ACTIVATIONS_SHARE + 0.01) * one.of_bytes, rel=1e-6)
    assert one.word == category
    # The rest isn't kept for a backward pass.
    assert "checkpoint" not in names(device, saving("checkpoint", ACTIVATIONS_SHARE - 0.01))
    # Without the activations, the peak would be elsewhere, so little is saved.
    whole = device.peak.peak_bytes
    little = Spot(round(0.6 * whole), round((SAVED_SHARE - 0.01) * whole))
    assert "checkpoint" not in names(device, replace(FACTS, forms={"checkpoint": little}))


def test_recomputation_needs_a_backward_pass() -> None:
    device = with_category(0.6, "activations")
    assert "checkpoint" in names(device, saving("checkpoint", 0.6))
    assert "checkpoint" not in names(device, saving("checkpoint", 0.6, trains=False))
    spot = Spot(device.peak.peak_bytes // 2, device.peak.peak_bytes // 2)
    both = replace(FACTS, forms={"checkpoint": spot, "no_grad": spot})
    assert {"checkpoint", "no_grad"} & set(names(device, both)) == {"no_grad"}


@pytest.mark.parametrize("name", ["recorded_gpt", "transformer_step", "leaky_training"])
def test_checkpointing_saves_no_more_than_in_simulation(name: str) -> None:
    snap = mr.open(ROOT / "tests/data" / f"{name}.pkl.gz")
    (device,) = overview(snap).devices
    one = {one.name: one for one in device.advice}.get("checkpoint")
    if name == "leaky_training":
        assert one is None  # the peak is in an evaluation under torch.no_grad()
        return
    assert one is not None
    replay = snap.replay(0)
    change = Change(twice=True, categories=tuple(one.word.split(", ")))
    found = replay.simulate(edit=Editor(snap, change).edit(replay)).outcome
    saved = device.peak.peak_bytes - found.requested_peak_bytes
    assert 0.95 * saved <= one.saved_bytes <= saved


@pytest.mark.parametrize("name", ["optimizer_state", "kv_cache"])
def test_large_state_or_cache_gets_advice(name: str) -> None:
    device = example("transformer_step", caught=None)
    assert name in names(device, saving(name, STATE_SHARE + 0.01))
    assert name not in names(device, saving(name, STATE_SHARE - 0.01))


def test_carried_over_state_counts() -> None:
    device = with_category(STATE_SHARE + 0.01, "optimizer state (likely)")
    one = names(device)["optimizer_state"]
    assert one.saved_bytes == round(0.75 * one.bytes)


def test_largest_saving_comes_first_after_faults() -> None:
    device = example("leaky_training", caught=None)
    whole = GIB
    device = replace(device, peak=replace(device.peak, peak_bytes=whole))
    forms = {
        "loss": Spot(whole, whole // 4),
        "foreach": Spot(whole, whole // 3),
        "optimizer_state": Spot(whole, whole // 2),
    }
    facts = replace(FACTS, forms=forms, setting=tried_out(10 * whole, whole))
    found = [one.name for one in advice_of(device, facts)]
    assert found == ["leak", "expandable_segments", "optimizer_state", "foreach", "loss"]


def test_leak_gets_advice() -> None:
    device = example("leaky_training")
    assert device.leaks is not None
    found = names(device)["leak"]
    assert (found.bytes, found.count) == (64 << 10, 40)
    assert found.frame == Frame("train_step", "/home/ana/tiny/train.py", 54)
    turns = replace(
        device, leaks=replace(device.leaks, leaks=(), leaks_total=0, whole_bytes_per_step=512)
    )
    assert names(turns)["growth"].bytes == 512
    none = replace(
        device, leaks=replace(device.leaks, leaks=(), leaks_total=0, whole_bytes_per_step=0)
    )
    assert not {"leak", "growth"} & set(names(none))


def tried_out(saved: int, reserved: int) -> Tried:
    return Tried(
        EXPANDABLE, saved, reserved, fails=False, variable="PYTORCH_CUDA_ALLOC_CONF", exact=True
    )


def tried(saved: int, *, unused: int = 3 * GIB, began_with: int = 0, **other: Any) -> Facts:
    """Return facts with 10 GiB reserved, in which the setting saves this many bytes."""
    setting = replace(tried_out(saved, 10 * GIB), **other)
    return replace(FACTS, setting=setting, unused=unused, began_with=began_with)


def test_setting_is_recommended_by_its_savings() -> None:
    device = example("transformer_step")
    least = round(LEAST_SHARE * 10 * GIB)
    found = names(device, tried(least))["expandable_segments"]
    assert (found.saved_bytes, found.of_bytes) == (least, 10 * GIB)
    assert found.command == "simulate --set expandable_segments:True"
    assert names(device, tried(least, exact=False))["expandable_segments"].word == "about"
    for facts in (tried(least - 1), tried(least, fails=True), FACTS):
        assert "expandable_segments" not in names(device, facts)
    small = replace(FACTS, setting=tried_out(60 * MIB, 100 * MIB))
    assert "expandable_segments" not in names(device, small)


def test_useless_popular_setting_is_mentioned_if_much_is_unused() -> None:
    device = example("transformer_step")
    much = round(MUCH_SHARE * 10 * GIB)
    found = names(device, tried(-MIB, unused=much))["expandable_segments_no"]
    assert (found.bytes, found.of_bytes, found.saved_bytes) == (-MIB, much, 0)
    assert names(device, tried(0, fails=True))["expandable_segments_no"].word == "fails"
    assert "expandable_segments_no" not in names(device, tried(-MIB, unused=much - 1))
    # The setting saves most of the unused memory, but too little to be recommended.
    small = tried_out(60 * MIB, 442 * MIB)
    facts = replace(FACTS, setting=small, unused=70 * MIB)
    assert not {"expandable_segments", "expandable_segments_no"} & set(names(device, facts))
    part = round(LITTLE_SHARE * much)
    assert "expandable_segments_no" in names(device, tried(part - 1, unused=much))
    # With the setting, carried-over memory would have other addresses, so it's unknown whether the
    # setting helps.
    assert "expandable_segments_no" not in names(device, tried(-MIB, began_with=1))


def test_first_known_step_may_follow_others() -> None:
    """If each step ends with the optimizer, the first complete step follows one that may be
    incomplete.
    """
    path = ROOT / "tests/data/leaky_training.pkl.gz"
    snap = mr.open(path)
    (device,) = overview(snap).devices
    assert device.steps is not None
    starts = [one.first_event for one in device.steps.steps]
    assert step_starts(device, snap.replay(0)) == starts


def test_nearly_full_card_gets_advice() -> None:
    device = example("transformer_step", total_memory_known=True)
    assert device.reserved_peak_bytes is not None
    total = round(device.reserved_peak_bytes / (FULL_SHARE + 0.01))
    assert names(replace(device, usable_bytes=total))["near_full"].of_bytes == total
    room = round(device.reserved_peak_bytes / (FULL_SHARE - 0.01))
    assert "near_full" not in names(replace(device, usable_bytes=room))
    # The usage at an out-of-memory event isn't the size of the card.
    assert "near_full" not in names(replace(device, usable_bytes=total, total_memory_known=False))


def test_nearly_full_card_is_judged_without_the_cuda_context() -> None:
    path = ROOT / "tests/data/transformer_step.pkl.gz"
    (device,) = overview(mr.open(path)).devices
    assert device.reserved_peak_bytes is not None
    # Less than 90% of the card was reserved, but more than 90% of what a program can use.
    usable = round(device.reserved_peak_bytes / (FULL_SHARE + 0.005))
    card = usable + context_bytes(usable)
    assert device.reserved_peak_bytes < FULL_SHARE * card
    (device,) = overview(mr.open(path), total_memory=card).devices
    assert device.usable_bytes == usable
    assert "near_full" in [one.name for one in device.advice]
    (simulated,) = mr.simulate(mr.open(path), total_memory=card).devices
    assert simulated.program_memory_bytes == device.usable_bytes


def test_failed_request_gets_its_remedies() -> None:
    made = scattered()
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    remedies = {remedy.name: remedy for remedy in one.oom.ooms[0].remedies}
    said = [advice.word for advice in one.advice if advice.name.startswith("oom_")]
    # Only every second block of 5 MiB is free, so no 20 MiB page is.
    assert not remedies["expandable_segments"].enough
    assert said == ["less_live", "expandable_segments"]


@pytest.mark.parametrize("later, saved", [(0, 7 * GIB), (-10, None)])
def test_saving_is_the_one_that_oom_reports(later: int, saved: int | None) -> None:
    """If the peak led to the failed request, the two figures are about the same memory."""
    made = scattered()
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    (failed,) = one.oom.ooms
    failed = replace(
        failed,
        event_index=one.peak.peak_event + later,
        remedies=(Remedy("inference_mode", 7 * GIB, True), *failed.remedies),
    )
    facts = replace(FACTS, forms={"inference_mode": Spot(9 * GIB, 6 * GIB)})
    found = names(replace(one, oom=replace(one.oom, ooms=(failed,))), facts)["inference_mode"]
    assert found.saved_bytes == (saved or 6 * GIB)


def test_request_larger_than_the_card_gets_advice() -> None:
    made, device = machine(200 * MIB)
    fail(device, 300 * MIB)
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    assert one.oom.ooms[0].cause == "request_too_large"
    assert [advice.name for advice in one.advice][:1] == ["oom_less_live"]
    assert one.advice[0].text.endswith("Request less")


def test_advice_says_what_to_record_next_time() -> None:
    device = example("leaky_training", reasons=("ring_overflow", "blocks_assumed"))
    assert [one.word for one in advice_of(device, FACTS) if one.name == "record"] == [
        "ring_overflow"
    ]
    assert "record_stacks" in names(device, replace(FACTS, stacks=False))
    assert "record_earlier" not in names(device)
    before = "before the recording: parameters, optimizer state, buffers"
    assert "record_earlier" in names(with_category(STATE_SHARE + 0.01, before))
    assert "record_earlier" not in names(with_category(STATE_SHARE - 0.01, before))
    # If the categories are known from the trace, recording earlier would add little.
    assert "record_earlier" not in names(with_category(0.6, "parameters (likely)"))
    assert device.leaks is not None
    few = replace(device, leaks=replace(device.leaks, judged=False))
    assert not any(name.startswith("record") for name in names(replace(few, reasons=())))


def test_facts_are_collected() -> None:
    made = SnapshotBuilder().segment_alloc(0x1000, 200 * MIB)
    made.alloc(0x1000, MIB, frames=[("f", "/a.py", 1)])
    made.alloc(0x200000, MIB)
    snap = mr.open(build.dump(made.finish_segments().build()))
    (device,) = overview(snap).devices
    found = facts_of(device, snap, snap.replay(0), Grouper(snap, "category"))
    assert (found.events, found.allocations, found.stacks) == (3, 2, True)
    assert (found.began_with, found.unused) == (0, 198 * MIB)
    assert found.trains  # memory without a stack may be from a backward pass
    assert found.setting is not None
