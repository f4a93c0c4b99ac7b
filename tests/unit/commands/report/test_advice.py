"""Tests of commands/report/advice.py: each piece of advice at its number, and none below it."""

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
from memreplay.commands.report.advice import (
    ACTIVATIONS_SHARE,
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
    """A device whose peak is held by one category to this share, and else by nothing known."""
    one = example("transformer_step", **changes)
    assert one.categories is not None
    whole = one.peak.peak_bytes
    caught = (replace(one.categories.rules[0], category=name, bytes=round(share * whole)),)
    peak = replace(one.peak, groups=())
    return replace(one, peak=peak, categories=replace(one.categories, rules=caught))


def saving(name: str, share: float, **facts: Any) -> Facts:
    """Facts by which one form saves this share of the peak of `with_category`."""
    whole = example("transformer_step").peak.peak_bytes
    spot = Spot(round(share * whole), round(share * whole))
    return replace(FACTS, forms={name: spot}, **facts)


@pytest.mark.parametrize(
    "name",
    ["attention_scores", "loss", "foreach", "zero_grad", "inference_mode", "no_grad"],
)
def test_a_form_that_saves_much(name: str) -> None:
    device = example("transformer_step", categories=None)
    found = names(device, saving(name, SAVED_SHARE + 0.01))[name]
    assert found.saved_bytes == found.bytes == pytest.approx(0.06 * found.of_bytes, rel=1e-6)
    assert name not in names(device, saving(name, SAVED_SHARE - 0.01))
    tiny = replace(device, peak=replace(device.peak, peak_bytes=20 * MIB))
    few = replace(FACTS, forms={name: Spot(10 * MIB, 10 * MIB)})
    assert name not in names(tiny, few)  # half the peak, and nobody needs 10 MiB


@pytest.mark.parametrize("category", ["activations", "attention"])
def test_activations(category: str) -> None:
    facts = saving("checkpoint", 0.3)
    one = names(with_category(ACTIVATIONS_SHARE + 0.01, category), facts)["checkpoint"]
    assert one.bytes == pytest.approx((ACTIVATIONS_SHARE + 0.01) * one.of_bytes, rel=1e-6)
    assert one.word == category
    assert "checkpoint" not in names(with_category(ACTIVATIONS_SHARE - 0.01, category), facts)
    # Others hold the peak next: nothing is saved.
    much = with_category(0.6, category)
    assert "checkpoint" not in names(much, saving("checkpoint", SAVED_SHARE - 0.01))


def test_nothing_is_recomputed_where_no_backward_pass_is() -> None:
    device = with_category(0.6, "activations")
    assert "checkpoint" in names(device, saving("checkpoint", 0.3))
    assert "checkpoint" not in names(device, saving("checkpoint", 0.3, trains=False))
    spot = Spot(device.peak.peak_bytes // 2, device.peak.peak_bytes // 2)
    both = replace(FACTS, forms={"checkpoint": spot, "no_grad": spot})
    assert {"checkpoint", "no_grad"} & set(names(device, both)) == {"no_grad"}


@pytest.mark.parametrize("name", ["optimizer_state", "kv_cache"])
def test_state(name: str) -> None:
    device = example("transformer_step", categories=None)
    assert name in names(device, saving(name, STATE_SHARE + 0.01))
    assert name not in names(device, saving(name, STATE_SHARE - 0.01))


def test_state_from_before_the_recording_counts() -> None:
    device = with_category(STATE_SHARE + 0.01, "optimizer state (likely)")
    one = names(device)["optimizer_state"]
    assert one.saved_bytes == round(0.75 * one.bytes)


def test_what_saves_most_comes_first_after_faults() -> None:
    device = example("leaky_training", categories=None)
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


def test_leaks() -> None:
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
    """Facts of 10 GiB reserved, of which the setting saves so much."""
    setting = tried_out(saved, 10 * GIB)._replace(**other)
    return replace(FACTS, setting=setting, unused=unused, began_with=began_with)


def test_a_setting_is_advised_by_what_it_saves() -> None:
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


def test_that_the_popular_setting_brings_nothing_is_said_where_much_is_unused() -> None:
    device = example("transformer_step")
    much = round(MUCH_SHARE * 10 * GIB)
    found = names(device, tried(-MIB, unused=much))["expandable_segments_no"]
    assert (found.bytes, found.of_bytes, found.saved_bytes) == (-MIB, much, 0)
    assert names(device, tried(0, fails=True))["expandable_segments_no"].word == "fails"
    assert "expandable_segments_no" not in names(device, tried(-MIB, unused=much - 1))
    # It saves most of what is unused, although too little to be advised.
    small = tried_out(60 * MIB, 442 * MIB)
    facts = replace(FACTS, setting=small, unused=70 * MIB)
    assert not {"expandable_segments", "expandable_segments_no"} & set(names(device, facts))
    part = round(LITTLE_SHARE * much)
    assert "expandable_segments_no" in names(device, tried(part - 1, unused=much))
    # What was there before would lie elsewhere: then nobody can say that it does not help.
    assert "expandable_segments_no" not in names(device, tried(-MIB, began_with=1))


def test_the_first_known_step_may_follow_others() -> None:
    """Where steps end with the optimizer's, the first one that is known has one before it."""
    path = ROOT / "tests/data/leaky_training.pkl.gz"
    snap = mr.open(path)
    (device,) = overview(snap).devices
    assert device.steps is not None
    starts = [one.first_event for one in device.steps.steps]
    assert step_starts(device, snap.replay(0)).tolist() == starts


def test_a_card_that_is_nearly_full() -> None:
    device = example("transformer_step", total_known=True)
    total = round(device.reserved_peak_bytes / (FULL_SHARE + 0.01))
    assert names(replace(device, usable_bytes=total))["near_full"].of_bytes == total
    room = round(device.reserved_peak_bytes / (FULL_SHARE - 0.01))
    assert "near_full" not in names(replace(device, usable_bytes=room))
    # What was seen of it at an out-of-memory event is not the card.
    assert "near_full" not in names(replace(device, usable_bytes=total, total_known=False))


def test_a_card_is_nearly_full_without_what_cuda_takes_of_it() -> None:
    path = ROOT / "tests/data/transformer_step.pkl.gz"
    (device,) = overview(mr.open(path)).devices
    # Less than 90% of this card were reserved, but more of what it has for a program.
    usable = round(device.reserved_peak_bytes / (FULL_SHARE + 0.005))
    card = usable + context_bytes(usable)
    assert device.reserved_peak_bytes < FULL_SHARE * card
    (device,) = overview(mr.open(path), total_memory=card).devices
    assert device.usable_bytes == usable
    assert "near_full" in [one.name for one in device.advice]
    (simulated,) = mr.simulate(mr.open(path), total_memory=card).devices
    assert simulated.total_bytes == device.usable_bytes


def test_a_request_that_failed() -> None:
    made = scattered()
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    remedies = {remedy.name: remedy for remedy in one.oom.ooms[0].remedies}
    said = [advice.word for advice in one.advice if advice.name.startswith("oom_")]
    # Every second block of 5 MiB is free: no page of 20 MiB is.
    assert not remedies["expandable_segments"].enough
    assert said == ["less_live", "expandable_segments"]


def test_a_request_that_nothing_could_serve() -> None:
    made, device = machine(200 * MIB)
    fail(device, 300 * MIB)
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    assert one.oom.ooms[0].cause == "request_too_large"
    assert [advice.name for advice in one.advice][:1] == ["oom_less_live"]
    assert one.advice[0].text.endswith("Ask for less")


def test_what_to_record_next_time() -> None:
    device = example("leaky_training", reasons=("ring_overflow", "blocks_assumed"))
    assert [one.word for one in advice_of(device, FACTS) if one.name == "record"] == [
        "ring_overflow"
    ]
    assert "record_stacks" in names(device, replace(FACTS, stacks=False))
    assert "record_earlier" not in names(device)
    before = "before the recording: parameters, optimizer state, buffers"
    assert "record_earlier" in names(with_category(STATE_SHARE + 0.01, before))
    assert "record_earlier" not in names(with_category(STATE_SHARE - 0.01, before))
    # Where the trace tells it apart, there is less to learn.
    assert "record_earlier" not in names(with_category(0.6, "parameters (likely)"))
    assert device.leaks is not None
    few = replace(device, leaks=replace(device.leaks, judged=False))
    assert not any(name.startswith("record") for name in names(replace(few, reasons=())))


def test_the_facts() -> None:
    made = SnapshotBuilder().segment_alloc(0x1000, 200 * MIB)
    made.alloc(0x1000, MIB, frames=[("f", "/a.py", 1)])
    made.alloc(0x200000, MIB)
    snap = mr.open(build.dump(made.finish_segments().build()))
    (device,) = overview(snap).devices
    found = facts_of(device, snap, snap.replay(0), Grouper(snap, "category"))
    assert (found.events, found.allocations, found.stacks) == (3, 2, True)
    assert (found.began_with, found.unused) == (0, 198 * MIB)
    assert found.trains  # what has no stack may be of a backward pass
    assert found.setting is not None
