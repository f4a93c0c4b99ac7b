"""dimensions: the sizes and names of the groups of each key match plain Python."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.rules import Rule
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways import WAYS
from tests import build, oracle
from tests.build import START_US, SnapshotBuilder
from tests.strategies import traces

TORCH = "/v/lib/python3.12/site-packages/torch/nn/functional.py"
BLOCK = [
    ("linear", TORCH, 9),
    ("Mlp.forward", "/r/gpt/mlp.py", 5),
    ("forward", "/r/gpt/block.py", 7),
    ("main", "/r/train.py", 1),
]


def groups(snap: mr.Snapshot, by: str, event: int | None = None, **rules: Any) -> dict[str, int]:
    """Return each label's bytes after an event, by default the last. Check that they add up."""
    replay = snap.replay()
    usage = replay.measure()
    at = replay.start + replay.events if event is None else event
    found, total, count = Grouper(snap, by, **rules).groups(usage, at, 0)
    assert (total, sum(g.count for g in found)) == (len(found), count)
    assert sum(g.bytes for g in found) == usage.bytes_at(at)
    assert [g.bytes for g in found] == sorted((g.bytes for g in found), reverse=True)
    return {g.label: g.bytes for g in found}


def opened(builder: SnapshotBuilder) -> mr.Snapshot:
    return mr.open(build.dump(builder.build()))


def rich() -> SnapshotBuilder:
    """Build 4 allocations at 10, 20, 30 and 40 us, and a carried-over one."""
    builder = SnapshotBuilder()
    builder.free_completed(1 << 40, 7, time_us=START_US)
    builder.event("alloc", 512, 100, frames=BLOCK, stream=0, time_us=START_US + 10)
    builder.event(
        "alloc",
        1024,
        200,
        frames=BLOCK[2:],
        stream=5,
        time_us=START_US + 20,
        compile_context="3/0",
        user_metadata="warm",
    )
    builder.event(
        "alloc", 2048, 400, frames=BLOCK[3:], time_us=START_US + 30, compile_context="N/A"
    )
    builder.event("alloc", 4096, 800, frames=[], time_us=START_US + 40, user_metadata="")
    for name, start, end in (("outer", 5, 35), ("inner", 15, 25), ("later", 39, None)):
        builder.annotation(name, "START", START_US + start)
        if end is not None:
            builder.annotation(name, "END", START_US + end)
    return builder


@pytest.mark.parametrize(
    "by, want",
    [
        ("innermost", {f"linear {TORCH}:9": 100, "forward /r/gpt/block.py:7": 200}),
        ("line", {"Mlp.forward /r/gpt/mlp.py:5": 100, "forward /r/gpt/block.py:7": 200}),
        ("function", {"Mlp.forward": 100, "forward": 200, "main": 400}),
        ("file", {"/r/gpt/mlp.py": 100, "/r/gpt/block.py": 200, "/r/train.py": 400}),
        ("directory", {"/r/gpt": 300, "/r": 400, "(recorded without a stack)": 800}),
        ("module", {"block.py:7 > Mlp": 100, "block.py:7": 200, "(in no module's forward)": 400}),
        ("category", {"compiled code": 200, "activations": 100, "unknown": 400}),
        ("annotation", {"outer": 500, "inner": 200, "later": 800}),
        ("compile_context", {"3/0": 200, "(no compile_context)": 1300}),
        ("user_metadata", {"warm": 200, "(no user_metadata)": 1300}),
        ("stream", {"stream 5": 200, "default stream": 1300}),
        ("pool", {"(pool not known)": 1500}),
        ("size", {"64 B to 128 B": 100, "128 B to 256 B": 200, "512 B to 1 KiB": 800}),
        ("category,annotation", {"activations, outer": 100, "compiled code, inner": 200}),
        ("file,size", {"/r/gpt/mlp.py, 64 B to 128 B": 100}),
    ],
)
def test_groups_have_the_expected_labels(by: str, want: dict[str, int]) -> None:
    found = groups(opened(rich()), by)
    assert {label: found.get(label) for label in want} == want


def test_carried_over_memory_has_a_label_for_each_key() -> None:
    snap = opened(rich())
    before = "(allocated before the recording)"
    for by, label in (
        ("stack", before),
        ("directory", before),
        ("annotation", "(outside of annotations)"),
        ("compile_context", "(no compile_context)"),
        ("size", "4 B to 8 B"),
        ("file,annotation", f"{before}, (outside of annotations)"),
    ):
        assert groups(snap, by, -1) == {label: 7}


def test_group_by_several_keys_has_the_frames_of_the_last_key_with_frames() -> None:
    snap = opened(rich())
    found, _, _ = Grouper(snap, "annotation,file,size").groups(snap.replay().measure(), 1, 0)
    (group,) = found
    assert group.frames[0].file == "/r/gpt/mlp.py"
    assert [one.text for one in group.of] == ["outer", "/r/gpt/mlp.py", "64 B to 128 B"]


@given(traces(), st.sampled_from(list(combinations(WAYS, 2))))
def test_any_keys_add_up_for_any_trace(snapshot: build.Snapshot, ways: tuple[str, str]) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        usage = snap.replay(device).measure()
        for event in (usage.replay.start, usage.peak.event_index):
            sums: list[Counter[str]] = []
            for by in (*ways, ",".join(ways)):
                found, _, count = Grouper(snap, by).groups(usage, event, 0)
                assert sum(g.bytes for g in found) == usage.bytes_at(event)
                assert sum(g.count for g in found) == count
                sums.append(Counter())
                for group in found:
                    sums[-1][group.label] += group.bytes
            # Groups by both keys add up to the same total as groups by one key.
            assert sum(sums[0].values()) == sum(sums[2].values())


@given(traces())
def test_directories_and_contexts_match_plain_python(snapshot: build.Snapshot) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        usage = snap.replay(device).measure()
        events = oracle.trace_of(snapshot, device)
        live = oracle.replay(snapshot, device).live_at(usage.peak.event_index)

        def text_of(one: oracle.Lifetime, key: str) -> str:
            text = events[one.alloc_index].get(key) if one.alloc_index >= 0 else None  # noqa: B023
            return text if text and text != "N/A" else f"(no {key})"

        checks: dict[str, Callable[[oracle.Lifetime], str]] = {
            "compile_context": lambda one: text_of(one, "compile_context"),
        }
        for by, label in checks.items():
            want: Counter[str] = Counter()
            for one in live:
                want[label(one)] += one.size
            found, _, _ = Grouper(snap, by).groups(usage, usage.peak.event_index, 0)
            assert {g.label: g.bytes for g in found} == dict(want)


def test_rules_may_match_rows_and_frames_together() -> None:
    snap = opened(rich())
    rules = (
        Rule("warm", user_metadata="^warm$"),
        Rule("compiled block", frames="block", compile_context="."),
        Rule("outer", annotation="outer"),
        Rule("own", frames="main$", where="own"),
    )
    assert groups(snap, "category", rules=rules) == {"warm": 200, "outer": 500, "unknown": 800}
    assert groups(snap, "category", rules=rules[1:]) == {
        "compiled block": 200,
        "outer": 500,
        "unknown": 800,
    }
    assert groups(snap, "category", rules=rules[3:]) == {"own": 400, "unknown": 1100}
    assert groups(snap, "category", rules=()) == {"unknown": 1500}
    # A stack's own frame is the frame that memory is attributed to, not the innermost one.
    torch = Rule("torch", frames="functional", where="own")
    mlp = Rule("mlp", frames="mlp", where="own")
    assert groups(snap, "category", rules=(torch, mlp)) == {"mlp": 100, "unknown": 1400}


def test_rules_do_not_match_stacks_without_events() -> None:
    snap = opened(SnapshotBuilder().alloc(512, 5, frames=BLOCK))
    for rule in (
        Rule("own", frames="mlp", where="own", user_metadata="."),
        Rule("any", frames="main", user_metadata="."),
        Rule("none", user_metadata=".", annotation="."),
    ):
        assert groups(snap, "category", rules=(rule,)) == {"unknown": 5}


def test_each_device_has_its_own_columns() -> None:
    builder = SnapshotBuilder(devices=2)
    for device, texts in enumerate((("a", "b"), ("c", "d"))):
        for i, text in enumerate(texts):
            builder.event("alloc", 512 << i, 1 + i, device=device, user_metadata=text)
    snap = opened(builder)
    for device, want in enumerate(({"a": 1, "b": 2}, {"c": 1, "d": 2})):
        usage = snap.replay(device).measure()
        found, _, _ = Grouper(snap, "user_metadata").groups(usage, 1, 0)
        assert {group.label: group.bytes for group in found} == want


def test_size_group_depends_on_the_measure() -> None:
    snap = opened(SnapshotBuilder().segment_alloc(1 << 30, 2 << 20).alloc(1 << 30, 100))
    grouper = Grouper(snap, "size,stream")
    alone = Grouper(snap, "size")
    for measure, label in (("requested", "64 B to 128 B"), ("allocated", "512 B to 1 KiB")):
        usage = snap.replay().measure(measure)  # type: ignore[arg-type]
        (group,), _, _ = grouper.groups(usage, 1, 0)
        assert group.label == f"{label}, default stream"
        assert [one.label for one in alone.groups(usage, 1, 0)[0]] == [label]


def test_group_by_two_keys_with_frames_has_the_frames_of_the_second() -> None:
    snap = opened(rich())
    found, _, _ = Grouper(snap, "innermost,file").groups(snap.replay().measure(), 1, 0)
    assert "/r/gpt/mlp.py" in [group.frames[0].file for group in found if group.frames]


def test_rules_with_one_name_are_one_category() -> None:
    rules = (Rule("own", "mlp"), Rule("other", "block"), Rule("own", "train"))
    assert groups(opened(rich()), "category", rules=rules) == {
        "unknown": 800,
        "own": 500,
        "other": 200,
    }


LINEAR = "/v/lib/python3.12/site-packages/torch/nn/modules/linear.py"


def test_modules_are_named_by_class_on_any_line() -> None:
    builder = SnapshotBuilder()
    stacks = [
        [("Linear.forward", LINEAR, 125), ("Block.forward", "/r/block.py", 7)],
        [("Block.forward", "/r/block.py", 8)],
        [("Block.forward", "/r/block.py", 9)],
        [("_call_impl", LINEAR.replace("linear", "module"), 9)],
        [("Block.forward", "/r/other.py", 9)],
        [("Function.forward", "/v/lib/python3.12/site-packages/torch/autograd/function.py", 9)],
    ]
    for i, stack in enumerate(stacks):
        builder.alloc((i + 1) << 20, 1 << i, frames=[*stack, ("Gpt.forward", "/r/gpt.py", i)])
    snap = opened(builder)
    found, _, _ = Grouper(snap, "module").groups(snap.replay().measure(), 5, 0)
    assert [(group.label, group.bytes) for group in found] == [
        ("Gpt", 32 + 8),
        ("Gpt > Block", 16),
        ("Gpt > Block", 4 + 2),
        ("Gpt > Block > Linear", 1),
    ]
    assert [(f.function, f.line) for f in found[2].frames] == [
        ("Block.forward", 0),
        ("Gpt.forward", 0),
    ]


@pytest.mark.parametrize("file", ["/r/gpt.py", "D:\\r\\gpt.py"])
def test_modules_without_classes_are_named_by_their_calls(file: str) -> None:
    builder = SnapshotBuilder()
    for i in range(2):
        frames = [("forward", LINEAR, 125), ("forward", file, i + 1)]
        builder.alloc((i + 1) << 20, i + 1, frames=[*frames, ("forward", file, 9)])
    assert groups(opened(builder), "module") == {
        "gpt.py:9 > :2 > linear.py:125": 2,
        "gpt.py:9 > :1 > linear.py:125": 1,
    }


def test_blank_names_are_shown_as_no_name() -> None:
    builder = SnapshotBuilder().alloc(512, 5, time_us=START_US + 10, user_metadata=" \n")
    builder.annotation(" ", "START", START_US)
    snap = opened(builder)
    assert groups(snap, "annotation") == {"(no name)": 5}
    assert groups(snap, "user_metadata") == {"(no name)": 5}
    # Rules match the recorded name.
    assert groups(snap, "category", rules=(Rule("blank", annotation="^ $"),)) == {"blank": 5}


@pytest.mark.slow
def test_deeply_nested_annotations_are_grouped_fast() -> None:
    n = 20_000
    builder = SnapshotBuilder()
    for i in range(n):
        builder.annotation(f"n{i}", "START", START_US + i)
        builder.alloc(0x10000 + 512 * i, 1, time_us=START_US + i)
    for i in range(n):
        # The spans overlap. The first to start is the first to end, so the innermost stays the
        # same.
        builder.annotation(f"n{i}", "END", START_US + n + i)
        builder.alloc(0x10000 + 512 * (n + i), 1, time_us=START_US + n + i)
    snap = mr.open(build.dump(builder.build()))
    begun = time.process_time()
    found = groups(snap, "annotation")
    assert time.process_time() - begun < 4  # 0.3 s
    assert found == {f"n{i}": 1 for i in range(n - 1)} | {f"n{n - 1}": n + 1}
