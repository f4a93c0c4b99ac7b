"""calltree: totals at every level match paths counted in plain Python."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.calls.calltree import TreeOptions, call_tree
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.tree import CallTree
from memreplay.commands.at.find import at_report
from memreplay.commands.at.text import at_document
from memreplay.commands.peak.find import peak_report
from memreplay.commands.peak.text import peak_document
from memreplay.engine.query import _groups
from memreplay.errors import UsageError
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import When
from tests import build
from tests.build import SnapshotBuilder
from tests.strategies import traces
from tests.unit.render.schemas import check_against

Path = tuple[int, ...]
Line = tuple[int, Path, int, int, int, int, int]
BEFORE, WITHOUT = _groups.CALL_CARRIED, _groups.CALL_NO_STACK


def slow(
    snap: mr.Snapshot, device: int, event: int, grouper: Grouper, options: TreeOptions
) -> object:
    """Return the lines of a live set's call tree: each path's totals, followed by its children."""
    usage = snap.replay(device).measure()
    live = usage.live_at(event=event)
    totals: Counter[Path] = Counter()
    counts: Counter[Path] = Counter()
    own: Counter[Path] = Counter()
    own_counts: Counter[Path] = Counter()
    for stack, size, begin in zip(
        live.stack.tolist(), live.size.tolist(), live.alloc_event.tolist(), strict=True
    ):
        ids = snap.native.stack(stack)  # innermost frame first
        ids = ids if options.inverted else ids[::-1]
        path = tuple(i for i in ids if options.whole_stacks or not grouper.known.is_plumbing(i))
        if not stack:
            path = (BEFORE if begin == -1 else WITHOUT,)
        elif not path:
            path = (grouper.label_frame(usage, stack),)
        for end in range(len(path) + 1):
            totals[path[:end]] += size
            counts[path[:end]] += 1
        own[path] += size
        own_counts[path] += 1
    children: dict[Path, list[Path]] = {}
    for path in counts:
        if path:
            children.setdefault(path[:-1], []).append(path)
    least = math.ceil(totals[()] * options.tree_share)
    lines: list[Line] = []

    def show(path: Path, level: int) -> None:
        for child in sorted(children.get(path, []), key=lambda p: (-totals[p], -counts[p], p[-1])):
            if totals[child] < least:
                continue
            end = child
            while len(children.get(end, [])) == 1 and not own_counts[end]:
                (end,) = children[end]
            below = len(children.get(end, []))
            numbers = (totals[end], counts[end], own[end], own_counts[end], below)
            lines.append((level, end[len(path) :], *numbers))
            if not options.depth or level < options.depth:
                show(end, level + 1)

    show((), 1)
    return lines


@given(
    traces(),
    st.integers(0, 2**16),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    st.booleans(),
    st.booleans(),
)
def test_tree_matches_slow_counting(
    snapshot: build.Snapshot, seed: int, depth: int, share: float, whole: bool, inverted: bool
) -> None:
    snap = mr.open(build.dump(snapshot))
    grouper = Grouper(snap, "stack")
    shape = TreeOptions(
        tree=True, depth=depth, tree_share=share, whole_stacks=whole, inverted=inverted
    )
    for device in snap.devices:
        usage = snap.replay(device).measure()
        event = usage.replay.start + seed % (usage.replay.events + 1)
        found = _groups.call_tree(
            grouper.dimensions.keys(usage, "stack"),
            usage.listed(event),
            usage.native,
            whole,
            depth,
            math.ceil(usage.bytes_at(event) * share),
            inverted,
        )
        assert found == slow(snap, device, event, grouper, shape)
        tree = call_tree(usage, event, grouper, shape)
        assert tree.inverted == inverted
        held = sum(call.bytes for call in tree.calls if call.level == 1)
        assert held + tree.hidden_bytes == usage.bytes_at(event)
        # A line's bytes are its own bytes, those of its child lines, and hidden bytes.
        for at, call in enumerate(tree.calls):
            below = []
            for other in tree.calls[at + 1 :]:
                if other.level <= call.level:
                    break
                if other.level == call.level + 1:
                    below.append(other.bytes)
            assert call.bytes == call.own_bytes + sum(below) + call.hidden_bytes
            assert call.hidden >= 0
            assert call.hidden or not call.hidden_bytes


def snap() -> mr.Snapshot:
    main = ("main", "train.py", 1)
    builder = SnapshotBuilder()
    builder.free_completed(1 << 40, 7)
    builder.alloc(512, 600, frames=[("f", "m.py", 1), ("step", "t.py", 2), main])
    builder.alloc(2048, 300, frames=[("g", "m.py", 5), ("step", "t.py", 2), main])
    builder.alloc(4096, 90, frames=[("step", "t.py", 2), main])
    builder.alloc(8192, 3, frames=[])
    return mr.open(build.dump(builder.build()))


def test_text_and_json_show_the_tree_at_the_peak() -> None:
    report = peak_report(snap(), tree=True, tree_share=0.2)
    text = render_plain(peak_document(report), width=100)
    assert text.split("leads to\n")[1].splitlines()[:5] == [
        "990 B  99.7%      3  main > step  t.py:2",
        "600 B  60.4%      1    f  m.py:1",
        "300 B  30.2%      1    g  m.py:5",
        " 90 B   9.1%           (itself)",
        "  3 B   0.3%         others",
    ]
    found = json.loads(render_json(report))
    check_against("peak-1.json", found)
    tree = found["devices"][0]["tree"]
    assert tree["hidden_bytes"] == 3
    assert [(call["level"], call["bytes"], call["label"]) for call in tree["calls"]] == [
        (1, 990, "step t.py:2"),
        (2, 600, "f m.py:1"),
        (2, 300, "g m.py:5"),
    ]
    cut = peak_report(snap(), tree=True, depth=1, tree_share=0)
    text = render_plain(peak_document(cut), width=100)
    assert "2 more calls" in text
    assert "(recorded without a stack)" in text


def test_inverted_tree_starts_at_the_allocating_frame() -> None:
    builder = SnapshotBuilder()
    main, aten = ("main", "train.py", 1), ("at::empty", "", 0)
    block, deep = ("block", "m.py", 9), ("deep", "m.py", 20)
    builder.alloc(512, 600, frames=[aten, ("f", "m.py", 1), ("step", "t.py", 2), main])
    builder.alloc(1024, 50, frames=[aten, ("f", "m.py", 1), ("test", "t.py", 7), main])
    builder.alloc(2048, 40, frames=[("f", "m.py", 1)])
    builder.alloc(4096, 30, frames=[deep, block, block, block, ("step", "t.py", 2), main])
    builder.alloc(8192, 3, frames=[])
    opened = mr.open(build.dump(builder.build()))
    report = peak_report(opened, tree=True, tree_share=0.05, inverted=True)
    text = render_plain(peak_document(report), width=100)
    title, *lines = text[text.index("bytes  share") :].splitlines()
    assert title.endswith("count  call, from the allocating function outward (< its callers)")
    assert lines[:5] == [
        "690 B  95.4%      3  f  m.py:1",
        "600 B  83.0%      1    step  t.py:2  < main",
        " 50 B   6.9%      1    test  t.py:7  < main",
        " 40 B   5.5%           (no caller)",
        " 33 B   4.6%         others",
    ]
    found = json.loads(render_json(report))
    check_against("peak-1.json", found)
    tree = found["devices"][0]["tree"]
    assert (tree["inverted"], tree["hidden_bytes"]) == (True, 33)
    assert [
        (call["level"], call["bytes"], call["own_bytes"], call["label"]) for call in tree["calls"]
    ] == [
        (1, 690, 40, "f m.py:1"),
        (2, 600, 600, "step t.py:2"),
        (2, 50, 50, "test t.py:7"),
    ]
    assert [frame["function"] for frame in tree["calls"][1]["frames"]] == ["step", "main"]
    cut = at_report(opened, [When("end")], tree=True, depth=1, tree_share=0, inverted=True)
    text = render_plain(at_document(cut), width=100)
    assert "2 more callers" in text
    assert "1  deep  m.py:20  < block < block < (3 more)\n" in text
    # With whole stacks, the allocating frame is PyTorch's.
    whole = peak_report(opened, tree=True, depth=1, whole_stacks=True, inverted=True)
    assert isinstance(tree := whole.devices[0].tree, CallTree)
    assert [(call.bytes, call.label) for call in tree.calls][:2] == [
        (650, "at::empty"),
        (40, "f m.py:1"),
    ]
    assert not json.loads(render_json(peak_report(opened, tree=True)))["devices"][0]["tree"][
        "inverted"
    ]


def test_tree_at_the_start_has_only_carried_over_memory() -> None:
    report = at_report(snap(), [When("start")], tree=True)
    found = json.loads(render_json(report))
    check_against("at-1.json", found)
    (call,) = found["devices"][0]["tree"]["calls"]
    assert (call["label"], call["bytes"], call["frames"]) == (
        "(allocated before the recording)",
        7,
        [],
    )


def test_stack_of_20000_frames_is_complete() -> None:
    frames = [("f", "a.py", line) for line in range(20_000)]
    builder = SnapshotBuilder().alloc(512, 1, frames=frames).alloc(1024, 1, frames=frames[1:])
    deep = mr.open(build.dump(builder.build()))
    (device,) = peak_report(deep, tree=True).devices
    assert isinstance(device.tree, CallTree)
    assert [(call.bytes, len(call.frames)) for call in device.tree.calls] == [(2, 19_999), (1, 1)]
    (device,) = peak_report(deep, tree=True, inverted=True).devices
    assert isinstance(device.tree, CallTree)
    assert [(call.bytes, len(call.frames)) for call in device.tree.calls] == [
        (1, 20_000),
        (1, 19_999),
    ]


def test_tree_options_are_rejected_without_stacks() -> None:
    for options in ({"measure": "reserved"}, {"by": "file"}):
        with pytest.raises(
            UsageError,
            match="tree groups by call stack",
        ):
            peak_report(snap(), tree=True, **options)
        with pytest.raises(
            UsageError,
            match="tree groups by call stack",
        ):
            at_report(snap(), [When("end")], tree=True, **options)
    with pytest.raises(UsageError, match="inverted only applies to tree; add tree"):
        peak_report(snap(), inverted=True)
    usage = snap().replay().measure()
    with pytest.raises(ValueError, match="a call tree needs groups by stack"):
        _groups.call_tree(
            _groups.size_keys(usage.native), usage.listed(0), usage.native, True, 0, 0
        )


def test_min_share_hides_small_calls() -> None:
    builder = SnapshotBuilder()
    for i, size in enumerate((2, 1)):
        builder.alloc(512 << i, size, frames=[(f"f{i}", "/r/m.py", 1)])
    opened = mr.open(build.dump(builder.build()))
    (device,) = peak_report(opened, tree=True, tree_share=0.5).devices
    assert isinstance(device.tree, CallTree)
    # 1 of 3 bytes is less than half.
    assert [call.bytes for call in device.tree.calls] == [2]
