"""Tests of analysis/comparing/sides.py: a baseline gives the same results as its snapshot."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.baseline_record import Baseline, BaselineDevice, BaselinePeak
from memreplay.analysis.comparing.sides import (
    REST,
    BaselineSide,
    Scope,
    SnapshotSide,
    placed,
    trimmed,
)
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.trust import graded
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES, Frame, Group, MeasureName, When
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.conftest import ROOT


def opened(recording: Recording) -> mr.Snapshot:
    return mr.open(build.dump(recording.snapshot))


@given(recordings(max_steps=60), st.sampled_from(["requested", "held"]), st.integers(0, 3))
def test_baseline_matches_its_snapshot(
    recording: Recording, measure: MeasureName, top: int
) -> None:
    snap = opened(recording)
    assume(snap.devices)
    direct = SnapshotSide(snap)
    boiled = BaselineSide(baseline_of(snap, measure=measure, top=top), "x")
    assert boiled.devices == direct.devices
    for device in direct.devices:
        for name in MEASURES:
            assert boiled.level(device, Scope(name)) == direct.level(device, Scope(name))
            assert boiled.verdict(device, name) == direct.verdict(device, name)
        ours, theirs = (side.at(device, Scope(measure)) for side in (boiled, direct))
        assert (ours.side.bytes, ours.side.count) == (theirs.side.bytes, theirs.side.count)
        assert (ours.side.exactness, ours.side.reasons) == (
            theirs.side.exactness,
            theirs.side.reasons,
        )
        assert sum(group.bytes for group in ours.groups) == ours.side.bytes
        assert sum(group.count for group in ours.groups) == ours.side.count
        whole = trimmed(theirs.groups)
        kept = [group for group in ours.groups if group.label != REST]
        assert kept == (whole[:top] if top else whole)
        if ours.most_left_out is None:
            assert len(kept) == len(whole)
        else:
            assert all(group.bytes <= ours.most_left_out for group in whole[len(kept) :])


OURS = (Frame("forward", "/job/model.py", 3), Frame("main", "/job/train.py", 9))
TORCH = Frame("linear", "/lib/python3.12/site-packages/torch/nn/functional.py", 7)
NODE = Frame("AddmmBackward0::apply", "", 0)


def test_stacks_are_shortened_and_added_up() -> None:
    groups = [
        Group(
            label="forward /job/model.py:3",
            bytes=5,
            count=1,
            share=0.1,
            frames=(TORCH, *OURS),
            user=(1, 2),
        ),
        Group(
            label="forward /job/model.py:3",
            bytes=7,
            count=2,
            share=0.1,
            frames=(NODE, *OURS),
            user=(1, 2),
        ),
        Group(
            label="AddmmBackward0::apply",
            bytes=90,
            count=3,
            share=0.1,
            frames=(TORCH, NODE, TORCH),
            user=(),
        ),
        Group(
            label="nothing that is there",
            bytes=1,
            count=1,
            share=0.1,
            frames=(TORCH, NODE),
            user=(),
        ),
        Group(label="(a)", bytes=2, count=1, share=0.1),
        Group(label="(a)", bytes=2, count=1, share=0.1),
    ]
    assert trimmed(groups) == [
        Group(label="AddmmBackward0::apply", bytes=91, count=4, share=0.0, frames=(NODE,), user=()),
        Group(
            label="forward /job/model.py:3", bytes=12, count=3, share=0.0, frames=OURS, user=(0, 1)
        ),
        Group(label="(a)", bytes=4, count=2, share=0.0),
    ]
    assert [placed(group) for group in groups[:5]] == [OURS[0], OURS[0], NODE, NODE, None]


def test_error_says_what_a_baseline_lacks() -> None:
    snap = mr.open(ROOT / "tests/data" / "transformer_step.pkl.gz")
    side = BaselineSide(baseline_of(snap), "base.json")
    for scope, words in (
        (Scope("held", When("end")), "is a baseline, which only has the peak of all memory"),
        (Scope("held", pool=(0, 0)), "is a baseline, which only has the peak of all memory"),
        (Scope("held", stream=0), "is a baseline, which only has the peak of all memory"),
        (Scope("held", category="mine"), "has no held bytes of the category 'mine'"),
    ):
        with pytest.raises(UsageError, match=words):
            side.level(0, scope)
    with pytest.raises(UsageError, match=r"base\.json has no device 4"):
        side.level(4, Scope("held"))
    with pytest.raises(UsageError, match="is a baseline of held bytes, without groups of active"):
        side.at(0, Scope("active"))
    with pytest.raises(UsageError, match="has no annotation 'x'"):
        side.at(0, Scope("held", annotation="x"))
    assert side.level(0, Scope("held", annotation="x")) is None
    # An empty category.
    found = side.level(0, Scope("held", category="KV cache"))
    assert found is not None
    assert found.bytes == 0


def test_annotations_and_categories_match_the_snapshot() -> None:
    snap = mr.open(ROOT / "tests/data" / "transformer_step.pkl.gz")
    direct, side = SnapshotSide(snap), BaselineSide(baseline_of(snap), "base.json")
    for scope in (
        Scope("held", annotation="ProfilerStep"),
        Scope("held", annotation="Optimizer.step"),
        Scope("held", category="activations"),
        Scope("held", category="unknown"),
    ):
        assert side.level(0, scope) == direct.level(0, scope)
        ours = side.at(0, scope)
        assert sum(group.bytes for group in ours.groups) == ours.side.bytes > 0


def test_all_groups_of_a_peak_may_be_omitted() -> None:
    """If no group is listed, a group of any size may have been omitted."""
    peak = BaselinePeak(
        measure="held",
        category=None,
        annotation=None,
        bytes=100,
        count=2,
        event_index=7,
        groups_total=2,
        rest_bytes=100,
        rest_count=2,
        groups=(),
    )
    device = BaselineDevice(device=0, reasons={}, peaks=(peak,))
    baseline = Baseline(
        file="x", measure="held", rules="", categories=(), frames=(), devices=(device,)
    )
    side = BaselineSide(baseline, "base.json")
    found = side.at(0, Scope("held"))
    assert found.groups == [Group(label=REST, bytes=100, count=2, share=0.0)]
    assert found.most_left_out == 100


def test_strict_applies_to_each_side(monkeypatch: pytest.MonkeyPatch) -> None:
    snap = mr.open(ROOT / "tests/data" / "transformer_step.pkl.gz")
    strictly = graded(("tail_race",))
    monkeypatch.setattr(
        "memreplay.analysis.comparing.sides.verdict",
        lambda *_, strict: strictly if strict else graded(()),
    )
    for strict in (False, True):
        side = SnapshotSide(snap, Selection(strict=strict))
        assert (side.verdict(0, "held") == strictly) is strict
        assert (side.at(0, Scope("held")).side.reasons == ("tail_race",)) is strict
