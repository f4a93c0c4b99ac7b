"""filters: the measure of matching allocations agrees with a check of every lifetime in plain
Python.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.selecting.filters import Filtering
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.at.find import at_report
from memreplay.commands.diff.find import diff_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.timeline.find import timeline_report
from memreplay.errors import UsageError
from memreplay.snapshot.model import MeasureName, When
from memreplay.snapshot.replay import Usage
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.examples import examples
from tests.strategies import traces

MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated")
PATTERNS: tuple[str, ...] = ("a", "e", "^", "nowhere", r"py:\w*f", "0|1", "model", ":")
PATTERNS += ("model.py:1", "model.py:10", "forward  …/model.py:11", "at::empty(long)", "^train$")


@st.composite
def some_filters(draw: st.DrawFn) -> Filters:
    of_carried, not_of_it = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    patterns = st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple)
    return Filters(
        draw(patterns),
        draw(patterns),
        draw(st.sampled_from([0, 1, 300, 512, 4096, 1 << 20])),
        draw(st.booleans()),
        of_carried,
        not_of_it,
    )


def passes(snap: mr.Snapshot, filters: Filters, life: tuple[int, int, int, int]) -> bool:
    begin, end, size, stack = life
    frames = [snap.frame(i) for i in snap.native.stack(stack)]

    def found(pattern: str) -> bool:
        if pattern == "model.py:1":  # matches the exact line number
            return any(frame.file.endswith("model.py") and frame.line == 1 for frame in frames)
        if "…" in pattern:
            return any((frame.function, frame.line) == ("forward", 11) for frame in frames)
        texts = [f"{frame.file}:{frame.function}" for frame in frames]
        texts += [f"{frame.function} {frame.file}" for frame in frames]
        lines = [f":{frame.line}" if frame.line else "" for frame in frames]
        texts += [text + line for text, line in zip(texts[len(frames) :], lines, strict=True)]
        texts += [f"{frame.file}:{frame.line}" for frame in frames if frame.line]
        return any(re.search(pattern, text) or pattern in text for text in texts)

    return (
        size >= filters.min_bytes
        and (end == -1 or not filters.only_live_at_end)
        and (begin == -1 or not filters.only_carried_over)
        and (begin != -1 or not filters.no_carried_over)
        and (any(map(found, filters.include)) or not filters.include)
        and not any(map(found, filters.exclude))
    )


def lives_of(usage: Usage) -> list[tuple[int, int, int, int]]:
    lives = usage.lifetimes
    columns = (lives.alloc_event, lives.free_event, lives.size, lives.stack)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def check(snapshot: build.Snapshot, measure: MeasureName, filters: Filters) -> None:
    snap = mr.open(build.dump(snapshot))
    filtering = Filtering(snap, filters)
    for device in snap.devices:
        whole = snap.replay(device).measure(measure)
        only = filtering.filtered(whole)
        wanted = [life for life in lives_of(whole) if passes(snap, filters, life)]
        assert lives_of(only) == wanted
        events = whole.replay.events
        series = [0] * (events + 1)
        for begin, end, size, _ in wanted:
            for event in range(begin, events if end == -1 else end):
                series[event + 1] += size
        assert [only.start_bytes, *only.series.tolist()] == series
        assert only.peak.bytes == max(series)
        assert only.end_bytes == series[-1]
        assert only.reconciliation_bytes is None
        event = only.peak.event_index
        assert sum(size for _, size in _live(only, event)) == only.peak.bytes
        assert snap.replay(device).measure(measure).bytes_at(event) >= only.bytes_at(event)


def _live(usage: Usage, event: int) -> list[tuple[int, int]]:
    live = usage.live_at(event=event)
    return list(zip(live.alloc_event.tolist(), live.size.tolist(), strict=True))


@given(traces(), st.sampled_from(MEASURES), some_filters())
def test_filters_on_any_trace_match_plain_python(
    snapshot: build.Snapshot, measure: MeasureName, filters: Filters
) -> None:
    check(snapshot, measure, filters)


@settings(max_examples=examples(40))
@given(recordings(max_devices=1), st.sampled_from(MEASURES), some_filters())
def test_filters_on_simulated_programs_match_plain_python(
    recording: Recording, measure: MeasureName, filters: Filters
) -> None:
    check(recording.snapshot, measure, filters)


def snap() -> mr.Snapshot:
    builder = SnapshotBuilder()
    builder.alloc(512, 100, frames=[("f", "model.py", 1)])
    builder.alloc(1024, 30, frames=[("g", "loss.py", 1)])
    builder.free_completed(512, 100)
    return mr.open(build.dump(builder.build()))


def test_all_reports_use_the_filter() -> None:
    one = snap()
    filters = Filters(include=("loss",))
    (peak,) = peak_report(one, filters=filters).devices
    assert (peak.peak_bytes, peak.peak_event, peak.live_count) == (30, 1, 1)
    assert [group.bytes for group in peak.groups] == [30]
    (at,) = at_report(one, [When("event", 0)], filters=filters).devices
    assert (at.live_bytes, at.peak_bytes, at.live_count) == (0, 30, 0)
    (listed,) = at_report(one, [When("peak", 1)], filters=filters, list=True).devices
    assert [found.bytes for found in listed.allocations or ()] == [30]
    (diff,) = diff_report(one, snap(), filters=filters).devices
    assert (diff.base.bytes, diff.base.count, diff.change_bytes) == (30, 1, 0)
    (series,) = timeline_report(one, by="file", filters=filters).devices
    assert series.buckets.max_bytes == [0, 30, 30]
    assert [layer.bytes for layer in series.layers] == [[0, 30, 30]]
    for report in (
        peak_report(one, filters=filters),
        diff_report(one, snap(), filters=filters),
        timeline_report(one, filters=filters),
    ):
        assert report.filters == filters


def test_filter_applies_to_each_stream() -> None:
    (peak,) = peak_report(snap(), by="stream", filters=Filters(min_bytes=31)).devices
    assert [(part.bytes, part.count) for part in peak.parts] == [(100, 1)]


def test_unsupported_filters_are_rejected() -> None:
    reserved = mr.open(build.dump(SnapshotBuilder().segment(1 << 30, 1 << 21).build()))
    with pytest.raises(UsageError, match="filters don't apply to reserved memory"):
        peak_report(reserved, measure="reserved", filters=Filters(min_bytes=1))
    with pytest.raises(UsageError, match="is not a regular expression"):
        peak_report(snap(), filters=Filters(include=("(",)))
    assert not Filters()


def test_carried_over_filter_without_matches_is_empty() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().alloc(512, 9).build()))
    with pytest.raises(UsageError, match="only_carried_over and no_carried_over leave nothing"):
        peak_report(snap, filters=Filters(only_carried_over=True, no_carried_over=True))


def place(n_bytes: int, function: str, file: str, line: int) -> mr.Snapshot:
    builder = SnapshotBuilder().alloc(512, n_bytes, frames=[(function, file, line)])
    builder.alloc(1 << 20, 7, frames=[("other", "/home/ana/other.py", 1)])
    return mr.open(build.dump(builder.build()))


MODEL = ("forward", "/home/ana/gpt/model.py", 399)
CPP = ("at::native::add(c10::ArrayRef<long>, int*)", "??", 0)
NODE = ("torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)", "??", 0)


@pytest.mark.parametrize(
    "frame, asked",
    [
        (MODEL, "model.py:399"),
        (MODEL, "/home/ana/gpt/model.py:399"),
        (MODEL, "forward"),
        (MODEL, "forward /home/ana/gpt/model.py:399"),
        (MODEL, "forward  /home/ana/gpt/model.py:399"),
        (MODEL, "forward  …/gpt/model.py:399"),
        (MODEL, "  forward  …/gpt/model.py:399  aten::einsum "),
        (MODEL, "… forward  …/gpt/model.py:399"),
        (MODEL, "via einops: forward  …/gpt/model.py:399"),
        (MODEL, "via forward  …/gpt/model.py:399"),
        (MODEL, r"gpt/model\.py:forward$"),
        (MODEL, r"^forward .*:39\d$"),
        (CPP, "at::native::add(c10::ArrayRef<long>, int*)"),
        (CPP, "at::native::add(c10::Array…"),
        (NODE, "BmmBackward0 (autograd)"),
        (NODE, "BmmBackward0 (autograd)  aten::bmm"),
        (("at::_ops::bmm::call(at::Tensor)", "??", 0), "aten::bmm"),
        (("at::_ops::bmm::call(at::Tensor)", "??", 0), "aten::bmm (PyTorch's own)"),
    ],
)
def test_displayed_names_can_be_used_as_filters(frame: build.FrameSpec, asked: str) -> None:
    one = place(100, *frame)
    for filters, n_bytes in ((Filters(include=(asked,)), 100), (Filters(exclude=(asked,)), 7)):
        (peak,) = peak_report(one, filters=filters).devices
        assert peak.peak_bytes == n_bytes


@pytest.mark.parametrize(
    "asked, words",
    [
        ("model.py:39", "near it: model.py:399 (forward)"),
        ("modle.py:399", "near it: model.py:399 (forward)"),
        ("forwrad", "near it: forward"),
        (r"modell\.py", "near it: model.py"),
        ("zzz", "the file has code in model.py, other.py"),
        ("(allocated before the recording)", "only_carried_over"),
    ],
)
def test_filter_without_matches_suggests_similar_names(asked: str, words: str) -> None:
    one = place(100, *MODEL)
    for option, filters in (
        ("include", Filters(include=("model", asked))),
        ("exclude", Filters(exclude=(asked,))),
    ):
        with pytest.raises(UsageError) as error:
            peak_report(one, filters=filters)
        assert f"{option} {asked!r} matches no frame; " in str(error.value)
        assert words in str(error.value)
    bare = mr.open(build.dump(SnapshotBuilder().alloc(512, 1).build()))
    with pytest.raises(UsageError, match=r"the recording has no Python frames|only_carried"):
        peak_report(bare, filters=Filters(include=(asked,)))


@pytest.mark.parametrize("asked", ["zzz", "x" * 9_990 + "q", "x" * 10_000 + ".py:7"])
def test_very_long_names_are_cut(asked: str) -> None:
    one = place(100, "x" * 10_000, "/a/" + "x" * 10_000 + ".py", 8)
    with pytest.raises(UsageError) as error:
        peak_report(one, filters=Filters(include=(asked,), exclude=()))
    assert "x…" in str(error.value)
    assert len(str(error.value)) < len(asked) + 400


def test_filter_must_match_one_of_two_snapshots() -> None:
    one, other = place(100, *MODEL), place(50, "main", "train.py", 3)
    (diff,) = diff_report(one, other, filters=Filters(include=("model.py",))).devices
    assert diff.change_bytes == -100
    with pytest.raises(UsageError, match=r"matches no frame; near it: train.py"):
        diff_report(one, other, filters=Filters(include=("trian.py",)))
