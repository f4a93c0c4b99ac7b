"""Tests of commands/report/advice.py: each piece of advice at its number, and none below it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.fragmentation.result import PointName, UnusedPoint
from memreplay.commands.report.advice import (
    ACTIVATIONS_SHARE,
    FULL_SHARE,
    HOLDER_SHARE,
    STATE_SHARE,
    UNUSED_SHARE,
    Facts,
    advice_of,
    facts_of,
)
from memreplay.commands.report.find import overview
from memreplay.commands.report.result import Advice, DeviceOverview
from memreplay.snapshot.model import Frame, Group
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.commands.oom.test_find import fail, machine, scattered

MIB, GIB = 1 << 20, 1 << 30
COSTLY = {"attention_scores", "loss", "foreach"}
FACTS = Facts(events=1_000, allocations=500, alone=0, stacks=True, backward=True, expandable=False)


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


@pytest.mark.parametrize(
    "category, least, name",
    [
        ("activations", ACTIVATIONS_SHARE, "checkpoint"),
        ("attention", ACTIVATIONS_SHARE, "checkpoint"),
        ("optimizer state", STATE_SHARE, "optimizer_state"),
        ("optimizer state (likely)", STATE_SHARE, "optimizer_state"),
        ("KV cache", STATE_SHARE, "kv_cache"),
        ("backward", HOLDER_SHARE, "zero_grad"),
    ],
)
def test_a_category_that_holds_much(category: str, least: float, name: str) -> None:
    found = names(with_category(least + 0.01, category, category="activations"))
    one = found[name]
    assert one.bytes == pytest.approx((least + 0.01) * one.of_bytes, rel=1e-6)
    assert name not in names(with_category(least - 0.01, category, category="activations"))


def test_gradients_at_a_peak_in_the_backward_pass_are_no_surprise() -> None:
    assert "zero_grad" not in names(with_category(0.5, "backward", category="backward"))


@pytest.mark.parametrize(
    "changes, name",
    [
        ({"backward": False}, "inference_mode"),
        ({"backward": True}, "checkpoint"),
        # Autograd's threads may be what has no stack.
        ({"backward": False, "alone": 1}, "checkpoint"),
    ],
)
def test_activations_with_and_without_a_backward_pass(changes: Any, name: str) -> None:
    device = with_category(0.6, "activations")
    found = names(device, replace(FACTS, **changes))
    assert {"inference_mode", "checkpoint"} & set(found) == {name}


@pytest.mark.parametrize(
    "frame, user, name",
    [
        (
            Frame("at::_ops::_softmax::call(at::Tensor const&)", "??", 0),
            "forward",
            "attention_scores",
        ),
        (Frame("at::_ops::exp::call(at::Tensor const&)", "??", 0), "softmax", "attention_scores"),
        (Frame("at::_ops::log_softmax_int::call()", "??", 0), "forward", "loss"),
        (Frame("at::_ops::cross_entropy_loss::call()", "??", 0), "forward", "loss"),
        (Frame("at::_ops::_foreach_sqrt::call()", "??", 0), "main", "foreach"),
        (Frame("at::_ops::linear::call()", "??", 0), "forward", ""),
    ],
)
def test_code_that_has_a_cheaper_form(frame: Frame, user: str, name: str) -> None:
    device = example("transformer_step", categories=None)
    whole = device.peak.peak_bytes
    place = Frame(user, "/home/ana/model.py", 7)

    def held(share: float) -> DeviceOverview:
        group = Group(
            label="",
            bytes=round(whole * share),
            count=1,
            share=share,
            frames=(frame, place),
            user=(1,),
        )
        return replace(device, peak=replace(device.peak, groups=(group,)))

    found = COSTLY & set(names(held(HOLDER_SHARE + 0.01)))
    assert found == ({name} if name else set())
    if name:
        assert names(held(HOLDER_SHARE + 0.01))[name].place == place
    assert not COSTLY & set(names(held(HOLDER_SHARE - 0.01)))


def test_leaks() -> None:
    device = example("leaky_training")
    assert device.leaks is not None
    found = names(device)["leak"]
    assert (found.bytes, found.count) == (64 << 10, 40)
    assert found.place == Frame("train_step", "/home/ana/tiny/train.py", 54)
    turns = replace(
        device, leaks=replace(device.leaks, leaks=(), leaks_total=0, whole_bytes_per_step=512)
    )
    assert names(turns)["growth"].bytes == 512
    none = replace(
        device, leaks=replace(device.leaks, leaks=(), leaks_total=0, whole_bytes_per_step=0)
    )
    assert not {"leak", "growth"} & set(names(none))


def point(unused: int, whole: int, name: PointName = "reserved", event: int = 7) -> UnusedPoint:
    return UnusedPoint(name, event, None, whole, whole - unused, unused)


def test_reserved_memory_that_is_not_in_use() -> None:
    much = round((UNUSED_SHARE + 0.01) * 10 * GIB)
    device = example("transformer_step", unused=point(much, 10 * GIB))
    found = names(device)["expandable_segments"]
    assert (found.bytes, found.of_bytes) == (much, 10 * GIB)
    assert found.command == "fragmentation --at 7"
    assert "unused" in names(device, replace(FACTS, expandable=True))
    little = round((UNUSED_SHARE - 0.01) * 10 * GIB)
    for one in (point(little, 10 * GIB), point(MIB, 2 * MIB), None):
        assert "expandable_segments" not in names(replace(device, unused=one))
    start = replace(device, unused=point(much, 10 * GIB, "start", -1))
    assert names(start)["expandable_segments"].command == "fragmentation --at start"


def test_a_card_that_is_nearly_full() -> None:
    device = example("transformer_step", total_known=True)
    total = round(device.reserved_peak_bytes / (FULL_SHARE + 0.01))
    assert names(replace(device, total_bytes=total))["near_full"].of_bytes == total
    room = round(device.reserved_peak_bytes / (FULL_SHARE - 0.01))
    assert "near_full" not in names(replace(device, total_bytes=room))
    # What was seen of it at an out-of-memory event is not the card.
    assert "near_full" not in names(replace(device, total_bytes=total, total_known=False))


def test_a_request_that_failed() -> None:
    made = scattered()
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    remedies = one.oom.ooms[0].remedies
    enough = [remedy.name for remedy in remedies if remedy.enough]
    assert enough
    said = [advice.word for advice in one.advice if advice.name.startswith("oom_")]
    assert said == list(dict.fromkeys((enough[0], enough[-1])))
    # Then it is the remedies that speak of what was free.
    assert not {"expandable_segments", "unused"} & set(names(one))


def test_what_is_not_enough_is_said_where_nothing_is() -> None:
    made, device = machine(200 * MIB)
    fail(device, 300 * MIB)
    (one,) = overview(mr.open(build.dump(made.dump()[0]))).devices
    assert one.oom is not None
    assert not any(remedy.enough for remedy in one.oom.ooms[0].remedies)
    assert any(name.startswith("oom_") for name in names(one))


def test_what_to_record_next_time() -> None:
    device = example("leaky_training", reasons=("ring_overflow", "blocks_assumed"))
    assert [one.word for one in advice_of(device, FACTS) if one.name == "record"] == [
        "ring_overflow"
    ]
    assert "record_stacks" in names(device, replace(FACTS, stacks=False))
    assert "record_earlier" not in names(device)
    before = replace(device.peak, baseline_held_bytes=device.peak.peak_bytes // 2)
    assert "record_earlier" in names(replace(device, peak=before))
    assert "record_steps" not in names(device)
    assert device.leaks is not None
    few = replace(device, leaks=replace(device.leaks, judged=False))
    assert "record_steps" in names(few)
    assert "record_steps" in names(replace(device, leaks=None))
    assert "record_steps" not in names(few, replace(FACTS, allocations=0))


def test_the_facts() -> None:
    made = SnapshotBuilder().alloc(0x1000, MIB, frames=[("f", "/a.py", 1)])
    made.alloc(0x200000, MIB).settings(expandable_segments=True)
    snap = mr.open(build.dump(made.finish_segments().build()))
    found = facts_of(snap, snap.replay(0))
    assert found == Facts(
        events=2, allocations=2, alone=1, stacks=True, backward=False, expandable=True
    )
    made.alloc(0x400000, MIB, frames=[("torch::autograd::Engine::evaluate_function()", "??", 0)])
    snap = mr.open(build.dump(made.build()))
    assert facts_of(snap, snap.replay(0)).backward
