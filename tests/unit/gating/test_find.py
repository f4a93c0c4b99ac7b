"""Tests of gating/find.py: the limits are compared with a replay, without false alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.baseline_reading import parse_baseline
from memreplay.analysis.comparing.budgets import Budget
from memreplay.analysis.comparing.sides import REST, BaselineSide, ComparedSide, SnapshotSide
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.leaks.judging import device_leaks
from memreplay.analysis.leaks.records import DeviceLeaks
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.trust import verdict
from memreplay.errors import UsageError
from memreplay.gating.base_lines import render_baseline
from memreplay.gating.find import CAUSES, _first, doubts, gate_file
from memreplay.gating.result import Cause, Finding, GatedFile
from memreplay.snapshot.model import MEASURES, MeasureName
from tests import build
from tests.allocator_strategies import Recording, record, recordings
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.kineto import Kineto

RULES = (Rule("model", "model.py"), Rule("optimizer", r"optimizer\.py:step"))


def opened(snapshot: build.Snapshot) -> mr.Snapshot:
    return mr.open(build.dump(snapshot))


def example(name: str) -> mr.Snapshot:
    return mr.open(ROOT / "tests/data" / f"{name}.pkl.gz")


def as_file(snap: mr.Snapshot, **options: Any) -> BaselineSide:
    """Return the baseline of a snapshot after a round trip."""
    text = render_baseline(baseline_of(snap, **options))
    return BaselineSide(parse_baseline(text.encode()), "base.json")


def of_kind(file: GatedFile, kind: str) -> list[Finding]:
    return [one for one in file.findings if one.kind == kind]


# ---- both forms of a base: a snapshot and a baseline file


def causes(new: mr.Snapshot, base: ComparedSide, *budgets: Budget) -> list[tuple[Cause, ...]]:
    found = gate_file(new, budgets or (Budget(max_peak=0),), base=base, allow_untrusted=True)
    return [one.causes for one in found.findings if one.kind != "trust"]


@pytest.mark.parametrize("base", ["transformer_step", "transformer_deeper", "leaky_training"])
@pytest.mark.parametrize("new", ["transformer_step", "transformer_deeper", "serving_oom"])
def test_snapshot_and_baseline_blame_the_same_code(base: str, new: str) -> None:
    before, after = example(base), example(new)
    parts = [Budget(max_peak=0), Budget(max_peak=0, category="activations")]
    if "transformer" in base and "transformer" in new:
        parts.append(Budget(max_peak=0, annotation="ProfilerStep"))
    found = causes(after, SnapshotSide(before), *parts)
    assert found == causes(after, as_file(before), *parts)
    assert found[0]


@given(recordings(max_steps=80), recordings(max_steps=80))
def test_both_forms_of_any_base_blame_the_same_code(base: Recording, new: Recording) -> None:
    before, after = opened(base.snapshot), opened(new.snapshot)
    assume(before.devices and after.devices)
    assert causes(after, SnapshotSide(before)) == causes(after, as_file(before))


def test_base_may_have_more_groups_than_a_baseline_keeps() -> None:
    def made(grown: int) -> mr.Snapshot:
        builder = SnapshotBuilder()
        for i in range(120):
            frames = [(f"f{i}", "/home/a/m.py", 10 * i), ("main", "/home/a/t.py", 1)]
            n_bytes = 10_000 * (120 - i) + grown * (i % 7 == 3)
            builder.alloc(1 << 20 | i << 32, n_bytes, frames=frames)
        return opened(builder.build())

    base, new = made(0), made(500)
    found = causes(new, SnapshotSide(base))
    assert found == causes(new, as_file(base))
    assert [one.function for one in found[0]] == ["f3", "f10", "f17"]


def test_line_is_blamed_for_everything_it_holds() -> None:
    def made(*sizes: int) -> mr.Snapshot:
        builder = SnapshotBuilder()
        for i, n_bytes in enumerate(sizes):
            callers = [("norm", "/home/a/m.py", 7), ("block", "/home/a/m.py", 20 + i)]
            builder.alloc(i << 20, n_bytes, frames=callers)
        return opened(builder.alloc(9 << 20, 450, frames=[("head", "/home/a/m.py", 90)]).build())

    (found,) = causes(made(300, 300), SnapshotSide(made(100, 100)))
    assert [(one.function, one.bytes, one.change_bytes) for one in found] == [("norm", 600, 400)]
    (found,) = causes(made(300, 300), SnapshotSide(made(300, 300)))
    assert [(one.function, one.bytes) for one in found] == [("norm", 600), ("head", 450)]


# ---- compared with a slow computation


def live_sums(snap: mr.Snapshot, device: int, measure: MeasureName, category: str) -> list[int]:
    """Return one category's bytes at the start and after each event, summed allocation by
    allocation.
    """
    usage = snap.replay(device).measure(measure)
    lives = usage.lifetimes
    grouper = Grouper(snap, "category", RULES)
    found = []
    for event in range(-1, usage.replay.events):
        groups, _, _ = grouper.groups(usage, event, 0)
        found.append(sum(group.bytes for group in groups if group.label == category))
    assert len(lives) >= 0
    return found


@given(
    recordings(max_steps=60),
    recordings(max_steps=60),
    st.sampled_from(MEASURES),
    st.integers(-1, 1),
    st.booleans(),
    st.booleans(),
)
def test_findings_agree_with_the_peaks(
    base: Recording, new: Recording, measure: MeasureName, off: int, small: bool, share: bool
) -> None:
    before, after = opened(base.snapshot), opened(new.snapshot)
    assume(after.devices and before.devices)
    side: ComparedSide = as_file(before, top=1) if small else SnapshotSide(before)
    for device in after.devices:
        peak = after.replay(device).measure(measure).peak.bytes
        limit = max(0, peak + off)
        common = device in before.devices
        there = before.replay(device).measure(measure).peak.bytes if common else 0
        grown = max(0, peak - there + off)
        budget = Budget(
            device=device,
            measure=measure,
            max_peak=limit,
            max_growth=0.1 if share else None,
            max_growth_bytes=grown,
        )
        found = gate_file(after, [budget], base=side, allow_untrusted=True)
        (one,) = of_kind(found, "max_peak")
        assert (one.actual_bytes, one.limit_bytes) == (peak, limit)
        assert one.failed is (peak > limit)
        for one in of_kind(found, "max_growth_bytes"):
            if not common:
                continue
            assert one.base_bytes == there
            assert one.failed is (peak - there > grown)
        for one in of_kind(found, "max_growth"):
            if common:
                assert one.failed is (peak - there > int(there * 0.1))
        for one in found.findings:
            if one.outcome == "failed" and one.kind != "trust" and measure != "reserved":
                assert one.causes
                assert all(cause.label != REST for cause in one.causes)
                changes = [cause.change_bytes for cause in one.causes]
                if one.growth_bytes is not None and one.growth_bytes > 0 and not small:
                    assert all(change is not None and change > 0 for change in changes)
        assert found.passed is not any(one.failed for one in found.findings)


@given(recordings(max_steps=40), st.sampled_from(["held", "active"]))
def test_categories_match_their_live_sets(recording: Recording, measure: MeasureName) -> None:
    snap = opened(recording.snapshot)
    for device in snap.devices:
        for category in ("model", "optimizer", "unknown"):
            peak = max(live_sums(snap, device, measure, category))
            budget = Budget(device=device, measure=measure, category=category, max_peak=peak)
            found = gate_file(snap, [budget], rules=RULES, allow_untrusted=True)
            (one,) = of_kind(found, "max_peak")
            assert (one.actual_bytes, one.failed) == (peak, False)


@given(recordings(max_steps=60), st.sampled_from(["held", "requested"]))
def test_snapshot_compared_with_itself_has_no_growth(
    recording: Recording, measure: MeasureName
) -> None:
    snap = opened(recording.snapshot)
    assume(snap.devices)
    budgets = [
        Budget(measure=measure, max_growth=0.0, max_growth_bytes=0),
        Budget(measure=measure, category="model", max_growth=0.0),
    ]
    sides = (
        SnapshotSide(snap, Selection(rules=RULES)),
        as_file(snap, measure=measure, rules=RULES, top=2),
    )
    for side in sides:
        found = gate_file(snap, budgets, base=side, rules=RULES, allow_untrusted=True)
        assert found.passed
        assert not found.rules_changed
        growth = [one for one in found.findings if one.kind.startswith("max_growth")]
        assert {one.outcome for one in growth} == {"passed"}
        assert {one.growth_bytes for one in growth} == {0}


# ---- growth


def program(*layers: tuple[str, int, int], line: int = 0) -> build.Snapshot:
    """Return one allocation per layer: its function, line and size; none is freed."""
    builder = SnapshotBuilder()
    for i, (name, at, size) in enumerate(layers):
        frames = [(name, "/job/model.py", at + line), ("main", "/job/train.py", 5 + line)]
        builder.alloc((i + 1) << 20, size, frames=frames)
    return builder.build()


@pytest.mark.parametrize("boiled", [False, True])
def test_cause_is_the_code_that_grew_even_if_its_lines_moved(boiled: bool) -> None:
    before = opened(program(("attend", 10, 900), ("project", 20, 100)))
    after = opened(program(("attend", 10, 900), ("project", 20, 300), line=7))
    side = as_file(before) if boiled else SnapshotSide(before)
    found = gate_file(after, [Budget(max_growth=0.1)], base=side, allow_untrusted=True)
    (one,) = of_kind(found, "max_growth")
    assert one.failed
    (cause,) = one.causes
    assert (cause.function, cause.file, cause.line) == ("project", "/job/model.py", 27)
    assert (cause.change_bytes, cause.bytes) == (200, 300)
    assert one.place == cause


def test_without_a_base_the_largest_holder_is_the_cause() -> None:
    snap = opened(program(("attend", 10, 900), ("project", 20, 100)))
    (one,) = of_kind(gate_file(snap, [Budget(max_peak=999)], allow_untrusted=True), "max_peak")
    assert one.failed
    assert [cause.function for cause in one.causes] == ["attend", "project"]
    assert one.causes[0].change_bytes is None


def test_groups_missing_from_a_baseline_are_not_new() -> None:
    layers = [(f"layer{i}", i, 1000 - i) for i in range(20)]
    before = opened(program(*layers))
    after = opened(program(*layers[:-1], ("layer19", 19, 2000)))
    side = as_file(before, top=4)
    (one,) = of_kind(
        gate_file(after, [Budget(max_growth=0.0)], base=side, allow_untrusted=True), "max_growth"
    )
    # The group may have been omitted from the baseline, with at most 997 bytes.
    assert [cause.function for cause in one.causes] == ["layer19"]


def test_devices_missing_from_the_base_are_not_compared() -> None:
    base = opened(SnapshotBuilder(devices=2).alloc(512, 10).alloc(512, 20, device=1).build())
    one_device = opened(SnapshotBuilder(devices=3).alloc(512, 99, device=2).build())
    other = SnapshotBuilder(devices=3).alloc(512, 20, device=1).alloc(512, 99, device=2)
    budget = Budget(max_growth_bytes=0)
    found = gate_file(
        opened(other.build()), [budget], base=SnapshotSide(base), allow_untrusted=True
    )
    judged, finding = of_kind(found, "max_growth_bytes")
    assert (judged.outcome, judged.base_bytes) == ("passed", 20)
    assert (finding.outcome, finding.detail) == (
        "not_judged",
        "the base has no such device; if it's new, save the base again",
    )
    # An unrelated file can't be a base.
    with pytest.raises(
        UsageError, match=r"the budget limits growth, but .* has no device in common"
    ):
        gate_file(one_device, [budget], base=SnapshotSide(base))
    # A peak is still checked against its limit.
    gate_file(one_device, [Budget(max_peak=100)], base=SnapshotSide(base))
    # Compare one rank's device with another's: each file has a single device.
    base = opened(SnapshotBuilder().alloc(512, 10).build())
    found = gate_file(one_device, [budget], base=SnapshotSide(base), allow_untrusted=True)
    (finding,) = of_kind(found, "max_growth_bytes")
    assert (finding.outcome, finding.base_bytes, finding.actual_bytes) == ("failed", 10, 99)


def test_missing_devices_and_names_are_errors() -> None:
    snap = opened(program(("attend", 10, 900)))
    with pytest.raises(UsageError, match=" is for device 3, which the file doesn't have; it has 0"):
        gate_file(snap, [Budget(device=3, max_peak=1)])
    with pytest.raises(UsageError, match="annotation 'step', which device 0 doesn't have"):
        gate_file(snap, [Budget(annotation="step", max_peak=1)])
    with pytest.raises(UsageError, match="unknown category 'x'; known: weights"):
        gate_file(snap, [Budget(category="x", max_peak=1)])
    with pytest.raises(UsageError, match="limits growth; give the base with --base"):
        gate_file(snap, [Budget(max_growth=0.1)])
    with pytest.raises(UsageError, match="neither events nor segments"):
        gate_file(opened(SnapshotBuilder().build()), [Budget(max_peak=1)])


# ---- other limits


def test_highest_occurrence_of_an_annotation_counts() -> None:
    snap = example("transformer_step")
    usage = snap.replay(0).measure("held")
    from memreplay.analysis.annotations.spans import spans

    for name in ("ProfilerStep", "Optimizer.step", "Optimizer.zero_grad"):
        highest = max(
            usage.bytes_at(event)
            for span in spans(snap, snap.replay(0))
            if span.name.partition("#")[0] == name
            for event in range(
                span.start_event, (9_999 if span.end_event is None else span.end_event) + 1
            )
        )
        found = gate_file(snap, [Budget(annotation=name, max_peak=highest)])
        (one,) = of_kind(found, "max_peak")
        assert (one.actual_bytes, one.outcome) == (highest, "passed"), name


def test_fragmentation_above_its_limit_fails() -> None:
    snap = example("serving_oom")
    reserved = snap.replay(0).measure("reserved").peak.bytes
    unused = reserved - snap.replay(0).measure("active").peak.bytes
    assert unused > 0
    for share, failed in ((unused / reserved + 0.001, False), (unused / reserved - 0.001, True)):
        (one,) = of_kind(gate_file(snap, [Budget(max_fragmentation=share)]), "max_fragmentation")
        assert (one.failed, one.actual_bytes, one.reserved_bytes) == (failed, unused, reserved)


@pytest.mark.parametrize("allow_untrusted", [False, True])
def test_profiler_trace_may_lack_reserved_memory(allow_untrusted: bool) -> None:
    trace = Kineto().memory(1, 512, 512, 512).memory(2, 1024, 512, 1024)
    budget = Budget(max_reserved=4096, max_peak=4096)
    found = gate_file(mr.open(trace.json()), [budget], allow_untrusted=allow_untrusted)
    (one,) = of_kind(found, "max_reserved")
    assert (one.outcome, one.failed, one.actual_bytes) == ("not_judged", True, None)
    assert one.detail == "the file doesn't say what was reserved"
    (one,) = of_kind(found, "max_peak")
    assert (one.outcome, one.actual_bytes) == ("passed", 1024)


def test_forbidden_leak_fails_with_its_call_site() -> None:
    (one,) = of_kind(
        gate_file(example("leaky_training"), [Budget(forbid_leaks=True)]), "forbid_leaks"
    )
    assert (one.outcome, one.actual_bytes, one.count) == ("failed", 65536, 40)
    assert one.place is not None
    assert one.place.file.endswith("train.py")
    (one,) = of_kind(
        gate_file(example("transformer_step"), [Budget(forbid_leaks=True)]), "forbid_leaks"
    )
    # A gate that couldn't check anything hasn't passed.
    assert (one.outcome, one.failed) == ("not_judged", True)
    assert "1 step is too few to distinguish" in one.detail


def test_idle_device_leaks_nothing_unless_all_are_idle() -> None:
    """If all devices were idle, it's unknown whether the program leaks."""
    idle = SnapshotBuilder(devices=2).segment(512, 1 << 21, device=1)
    snapshot = leaky.snapshot(leaky.Options(steps=12, leak_bytes=0))
    snapshot["segments"] += idle.build()["segments"]
    traces = snapshot["device_traces"]
    assert isinstance(traces, list)
    traces.append([])
    found = gate_file(opened(snapshot), [Budget(forbid_leaks=True)])
    assert [one.outcome for one in of_kind(found, "forbid_leaks")] == ["passed", "skipped"]
    found = gate_file(opened(idle.build()), [Budget(forbid_leaks=True)], allow_untrusted=True)
    assert [one.outcome for one in of_kind(found, "forbid_leaks")] == ["not_judged"]
    assert not found.passed


def test_forbidden_out_of_memory_fails_with_its_call_site() -> None:
    (one,) = of_kind(gate_file(example("serving_oom"), [Budget(forbid_oom=True)]), "forbid_oom")
    assert (one.outcome, one.count, one.actual_bytes) == ("failed", 2, 192 << 20)
    assert one.place is not None
    assert (one.place.function, one.place.line) == ("attention", 52)
    assert gate_file(example("leaky_training"), [Budget(forbid_oom=True)]).passed


# ---- trust


def untrusted() -> build.Snapshot:
    """Build a device with an allocation and no segments."""
    return SnapshotBuilder().alloc(512, 100).build()


def test_untrustworthy_snapshot_fails() -> None:
    snap = opened(untrusted())
    assert not verdict(snap, snap.replay(0).measure("held")).trusted
    found = gate_file(snap, [Budget(max_peak=1000)])
    assert not found.passed
    (one,) = of_kind(found, "trust")
    assert (one.outcome, one.measure, one.of_base) == ("failed", "held", False)
    assert one.reasons
    allowed = gate_file(snap, [Budget(max_peak=1000)], allow_untrusted=True)
    assert allowed.passed
    (one,) = of_kind(allowed, "trust")
    assert one.outcome == "skipped"


def test_untrustworthy_base_fails_comparisons() -> None:
    base, snap = SnapshotSide(opened(untrusted())), example("leaky_training")
    budget = Budget(max_growth_bytes=1 << 40)
    found = gate_file(snap, [budget], base=base)
    assert [one.of_base for one in found.findings if one.failed] == [True]
    # The damage doesn't matter, because it's unrelated to the limit.
    assert gate_file(snap, [Budget(max_peak=1 << 40)], base=base).passed


def overflowed() -> mr.Snapshot:
    recording = record(5, steps=60, max_entries=30)
    snapshot = dict(recording.snapshot)
    snapshot["allocator_settings"] = {
        **dict(snapshot.get("allocator_settings", {})),
        "trace_alloc_overflowed": True,
    }
    return mr.open(build.dump(snapshot))


MISSING = "so an earlier, higher peak may be missing"
LAST = f"the snapshot shows the last 30 events only: the ring buffer was full, {MISSING}"


def test_overflowed_ring_buffer_never_passes() -> None:
    """If the remaining events exceed a limit, the limit fails; otherwise, it can't be judged."""
    snap = overflowed()
    assert "ring_overflow" in verdict(snap, snap.replay(0).measure("held")).reasons
    for budget in (Budget(max_peak=1 << 40), Budget(max_reserved=1 << 40)):
        found = gate_file(snap, [budget])
        assert not found.passed
        assert found.overflowed_devices == (0,)
        one = found.findings[0]
        assert (one.outcome, one.detail, one.reasons) == ("not_judged", LAST, ("ring_overflow",))
        # The limit's own message is enough.
        assert of_kind(gate_file(snap, [budget], strict=True), "trust")[0].reasons == ()
        assert gate_file(snap, [budget], allow_untrusted=True).passed
    for budget in (Budget(max_peak=0), Budget(max_reserved=0)):
        assert gate_file(snap, [budget]).findings[0].outcome == "failed"
    # The comparison needs the peaks of both, so neither is certain.
    for share in (0.0, 1.0):
        (one,) = of_kind(gate_file(snap, [Budget(max_fragmentation=share)]), "max_fragmentation")
        assert one.outcome == "not_judged"
    (one,) = of_kind(gate_file(snap, [Budget(forbid_oom=True)]), "forbid_oom")
    assert one.detail.endswith("so an earlier failure may be missing")


@pytest.mark.parametrize("as_baseline", [False, True])
def test_growth_from_or_to_an_overflowed_ring_buffer_is_not_judged(as_baseline: bool) -> None:
    whole = opened(record(5, steps=60).snapshot)
    lossy = overflowed()
    of_lossy: ComparedSide = as_file(lossy) if as_baseline else SnapshotSide(lossy)
    of_whole: ComparedSide = as_file(whole) if as_baseline else SnapshotSide(whole)
    for budget in (Budget(max_growth=9.0), Budget(max_growth_bytes=1 << 40)):
        (one,) = gate_file(lossy, [budget], base=of_whole, strict=True).findings[:1]
        assert (one.outcome, one.detail) == ("not_judged", LAST)
        # With a base that may have been higher, even an exceeded limit is uncertain.
        for limit in (budget, Budget(max_growth_bytes=0)):
            one = gate_file(whole, [limit], base=of_lossy).findings[0]
            assert one.outcome == "not_judged"
            assert one.detail.startswith("the base shows the last events only")


def nothing_recorded() -> Iterator[mr.Snapshot]:
    """Build a snapshot whose only event is an earlier dump."""
    for with_event in (False, True):
        builder = SnapshotBuilder()
        if with_event:
            builder.snapshot_event(512)
        builder.segment(1 << 20, 2 << 20, blocks=[builder.block(1 << 20, 512, 300)])
        yield opened(builder.build())


def test_snapshot_without_a_recording_never_passes() -> None:
    """No kind of limit passes."""
    base = SnapshotSide(opened(SnapshotBuilder().alloc(512, 4096).build()))
    for snap in nothing_recorded():
        for budget in (
            Budget(max_peak=1 << 40),
            Budget(max_growth=9.0),
            Budget(max_growth_bytes=1 << 40),
            Budget(max_reserved=1 << 40),
            Budget(max_fragmentation=1.0),
            Budget(max_spread=1.0),
            Budget(forbid_leaks=True),
            Budget(forbid_oom=True),
            Budget(category="activations", max_peak=1 << 40),
        ):
            found = gate_file(snap, [budget], base=base)
            assert not found.passed, budget
            assert found.findings[0].outcome == "not_judged", budget
        (kept,) = gate_file(snap, [Budget(max_peak=1 << 40)], allow_untrusted=True).findings[:1]
        assert kept.outcome == "passed"
        # Nothing shows the base's peak.
        grown = opened(SnapshotBuilder().alloc(512, 10).build())
        (one,) = gate_file(grown, [Budget(max_growth=9.0)], base=SnapshotSide(snap)).findings[:1]
        assert one.outcome == "not_judged"
        assert one.detail.startswith("the base shows the final state only")


def test_only_some_reasons_cast_doubt() -> None:
    reasons = ("blocks_assumed", "ring_overflow", "pending_frees", "no_events", "tail_race")
    assert doubts(reasons) == ("tail_race",)
    assert doubts(reasons, strict=True) == ("ring_overflow", "no_events", "tail_race")
    assert doubts(()) == ()


def test_changed_rules_are_reported() -> None:
    snap = example("transformer_step")
    base = as_file(snap)
    budget = [Budget(category="activations", max_growth=1.0)]
    assert not gate_file(snap, budget, base=base).rules_changed
    rules = (Rule("activations", "model.py"), *DEFAULT_RULES)
    assert gate_file(snap, budget, base=base, rules=rules).rules_changed
    assert not gate_file(snap, [Budget(max_growth=1.0)], base=base, rules=rules).rules_changed


def test_baseline_without_the_needed_data_is_an_error() -> None:
    snap = example("transformer_step")
    base = as_file(snap)
    rules = (Rule("mine", "model.py"), *DEFAULT_RULES)
    with pytest.raises(
        UsageError,
        match="has no held bytes of the category 'mine'; save it again",
    ):
        gate_file(snap, [Budget(category="mine", max_growth=1.0)], base=base, rules=rules)
    with pytest.raises(UsageError, match="no active bytes of the category 'activations'"):
        gate_file(
            snap, [Budget(category="activations", measure="active", max_growth=1.0)], base=base
        )
    # A baseline contains only the categories and annotations for which it was written.
    wanted = Budget(category="activations", annotation="Optimizer.step", max_growth=0.0)
    (one,) = of_kind(gate_file(snap, [wanted], base=base), "max_growth")
    assert (one.outcome, one.detail) == (
        "not_judged",
        "the base has no such annotation 'Optimizer.step'; if it's new, save the base again",
    )
    found = gate_file(snap, [wanted], base=as_file(snap, budgets=[wanted]))
    assert of_kind(found, "max_growth")[0].outcome == "passed"


def test_baseline_without_peaks_has_a_clear_message() -> None:
    snap = example("transformer_step")
    made = baseline_of(snap)
    made = replace(made, devices=(replace(made.devices[0], peaks=()),))
    with pytest.raises(UsageError, match=r"base.json has no held bytes; save it again"):
        gate_file(snap, [Budget(max_growth=1.0)], base=BaselineSide(made, "base.json"))


@pytest.mark.parametrize("percent", [7, 28, 29, 55, 56, 57, 58])
def test_growth_equal_to_the_limit_passes(percent: int) -> None:
    base = SnapshotSide(opened(SnapshotBuilder().alloc(512, 100).build()))
    for more, outcome in ((0, "passed"), (1, "failed")):
        snap = opened(SnapshotBuilder().alloc(512, 100 + percent + more).build())
        found = gate_file(snap, [Budget(max_growth=percent / 100)], base=base)
        (one,) = of_kind(found, "max_growth")
        assert (one.limit_bytes, one.outcome) == (100 + percent, outcome)


def test_any_growth_from_zero_fails() -> None:
    """Any percentage of 0 bytes is 0."""
    snap = opened(SnapshotBuilder().alloc(512, 10).build())
    base = replace(baseline_of(snap, rules=()), categories=("x", "unknown"))
    rules = (Rule("x", "model.py"),)
    side = BaselineSide(base, "base.json")
    (one,) = of_kind(
        gate_file(snap, [Budget(category="x", max_growth=1.0)], base=side, rules=rules),
        "max_growth",
    )
    assert (one.base_bytes, one.limit_bytes, one.actual_bytes, one.outcome) == (0, 0, 0, "passed")


def test_reserved_memory_is_measured_as_reserved() -> None:
    snap = example("transformer_step")
    peak = snap.replay(0).measure("reserved").peak
    for limit, outcome in ((peak.bytes, "passed"), (peak.bytes - 1, "failed")):
        (one,) = of_kind(gate_file(snap, [Budget(max_reserved=limit)]), "max_reserved")
        assert (one.actual_bytes, one.measure, one.outcome) == (peak.bytes, "reserved", outcome)
        assert (one.event_index, one.causes) == (peak.event_index, ())


def test_fragmentation_equal_to_the_limit_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    snap = example("transformer_step")
    reserved, active = (snap.replay(0).measure(name).peak.bytes for name in ("reserved", "active"))
    for limit, failed in ((reserved - active, False), (reserved - active - 1, True)):
        monkeypatch.setattr("memreplay.gating.find.share_of", lambda *_, limit=limit: limit)
        (one,) = of_kind(gate_file(snap, [Budget(max_fragmentation=0.1)]), "max_fragmentation")
        assert one.failed is failed


def test_every_limit_needs_trustworthy_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    snap = opened(untrusted())
    found = gate_file(snap, [Budget(max_fragmentation=1.0)])
    assert {one.measure for one in of_kind(found, "trust")} == {"reserved", "active"}
    assert not found.passed
    monkeypatch.setattr("memreplay.analysis.leaks.judging.device_leaks", lambda *_, **__: steady())
    found = gate_file(snap, [Budget(forbid_leaks=True)])
    assert [one.kind for one in found.findings if one.failed] == ["trust"]
    # Without events it's unknown whether a request failed.
    snapshot = {**record(5, steps=60).snapshot, "device_traces": [[]]}
    found = gate_file(mr.open(build.dump(snapshot)), [Budget(forbid_oom=True)])
    assert [one.reasons for one in found.findings if one.failed] == [("no_events",)]


def steady() -> DeviceLeaks:
    """Build steps without a leak."""
    snap = example("leaky_training")
    found = device_leaks(snap, snap.replay(0).measure("held"), Selection(top=3))
    return replace(found, leaks=(), leaks_total=0, leak_bytes_per_step=0, whole_bytes_per_step=0)


def test_leak_over_several_stacks_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found = steady()
    monkeypatch.setattr("memreplay.analysis.leaks.judging.device_leaks", lambda *_, **__: found)
    snap, budget = example("leaky_training"), [Budget(forbid_leaks=True)]
    (one,) = of_kind(gate_file(snap, budget), "forbid_leaks")
    assert (one.outcome, one.actual_bytes) == ("passed", 0)
    found = replace(found, whole_bytes_per_step=512)
    (one,) = of_kind(gate_file(snap, budget), "forbid_leaks")
    assert (one.outcome, one.actual_bytes, one.causes) == ("failed", 512, ())
    # Windows of equal length aren't the program's steps.
    assert found.step_source is not None
    found = replace(found, step_source=replace(found.step_source, found_by="windows"))
    (one,) = of_kind(gate_file(snap, budget), "forbid_leaks")
    assert one.outcome == "not_judged"
    assert one.detail == "no steps were found (memreplay leaks says more)"
    found = replace(found, judged=False, not_judged_reason="4 steps are too few to tell; record 5")
    (one,) = of_kind(gate_file(snap, budget), "forbid_leaks")
    assert one.detail.startswith("4 steps are too few to tell (")


def test_groups_missing_from_a_baseline_are_never_the_cause() -> None:
    large = [(f"large{i}", i, 1000) for i in range(4)]
    small = [(f"small{i}", i, 10) for i in range(9)]
    side = as_file(opened(program(*large, *small)), top=4)
    after = opened(program(*large, *[(name, at, 900) for name, at, _ in small]))
    found = gate_file(after, [Budget(max_growth=0.0)], base=side, allow_untrusted=True)
    (one,) = of_kind(found, "max_growth")
    assert one.failed
    assert REST not in {cause.label for cause in one.causes}
    assert [cause.change_bytes for cause in one.causes] == [None] * 3


def test_peak_that_did_not_grow_is_blamed_on_the_largest_holder() -> None:
    base = SnapshotSide(opened(program(("attend", 10, 900), ("project", 20, 100))))
    after = opened(program(("attend", 10, 500), ("project", 20, 200)))
    found = gate_file(after, [Budget(max_peak=600)], base=base, allow_untrusted=True)
    (one,) = of_kind(found, "max_peak")
    assert (one.failed, one.growth_bytes) == (True, -300)
    assert [(cause.function, cause.change_bytes) for cause in one.causes] == [
        ("attend", None),
        ("project", None),
    ]


def test_largest_cause_with_a_call_site_is_always_kept() -> None:
    nowhere = [Cause(f"({i})", 9) for i in range(5)]
    placed = [Cause("f", 5, None, "f", "model.py", 3), Cause("g", 4, None, "g", "model.py", 5)]
    assert _first([*nowhere, *placed]) == (*nowhere[:CAUSES], placed[0])
    assert _first([placed[0], *nowhere]) == (placed[0], *nowhere[: CAUSES - 1])
    assert _first(nowhere) == tuple(nowhere[:CAUSES])
