"""Tests of export/page/groups.py: groups of a page match `memreplay at`."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways import WAYS
from memreplay.render.blocks import place_text
from memreplay.render.holders import coded_row
from memreplay.snapshot.model import Group, MeasureName
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import SNAPSHOTS
from tests.holding import with_holders
from tests.strategies import traces
from tests.unit.analysis.groups.test_holding import GROUPS, of_blocks, two_lists
from tests.unit.export.page.reading import Read

MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated")
Held = list[tuple[int, int, tuple[str, ...]]]


def held(page: Read, way: str, event: int, measure: MeasureName) -> Held | None:
    """Return (bytes, count, lines) of each group after an event; None if the page lacks the key."""
    (device,) = page.data.devices
    groups = next((one for one in device.groups if one.way == way), None)
    if groups is None:
        return None
    of = page.groups(device, groups, measure)
    lines = page.lines(groups)
    n_bytes: Counter[int] = Counter()
    count: Counter[int] = Counter()
    for one, group in zip(page.lives(device), of, strict=True):
        if one.live(event, measure):
            n_bytes[group] += one.bytes(measure)
            count[group] += 1
    return sorted((n_bytes[one], count[one], lines[one]) for one in count)


def wanted(snap: mr.Snapshot, way: str, event: int, measure: MeasureName, rules: Any) -> Held:
    """Return the same values from the engine, with the lines of a table."""
    usage = snap.replay(snap.devices[0]).measure(measure)
    found = Grouper(snap, way, rules, fold=True).groups(usage, event + usage.replay.first_event, 0)
    return sorted((one.bytes, one.count, lines_of(one, way)) for one in found[0])


def lines_of(group: Group, way: str) -> tuple[str, ...]:
    row = coded_row((), group, way, all_frames=False)
    return (place_text(row.cells[-1]), *(place_text(one) for one, _ in row.below))


def check(
    snap: mr.Snapshot,
    events: list[int],
    rules: tuple[Rule, ...] | None = None,
    measures: tuple[MeasureName, ...] = ("requested",),
) -> None:
    page = Read(snap, rules=rules)
    for way, measure, event in product(WAYS, measures, events):
        mine = held(page, way, event, measure)
        theirs = wanted(snap, way, event, measure, rules)
        if mine is None:
            # The label for a missing stack may be followed by advice.
            assert all(lines[0].startswith(tuple(WAYS[way].nothing)) for _, _, lines in theirs), way
            continue
        assert [one[:2] for one in mine] == [one[:2] for one in theirs]
        # If two look the same, a page shows the difference below them.
        for n_bytes, count, lines in sorted(theirs, key=lambda one: -len(one[2])):
            mine.remove(
                next(
                    one
                    for one in mine
                    if one[:2] == (n_bytes, count) and one[2][: len(lines)] == lines
                )
            )
        assert not mine, way


@given(traces(), st.randoms(use_true_random=False))
def test_groups_match_those_of_at(snapshot: Any, draw: random.Random) -> None:
    data = build.dump(snapshot)
    for device in mr.open(data).devices[:1]:
        snap = mr.open(data, device=device)
        events = snap.replay(device).events
        check(snap, [draw.randrange(-1, events)], measures=(draw.choice(MEASURES),))


@pytest.mark.slow
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_groups_of_real_snapshots_match_those_of_at(path: Path) -> None:
    for device in mr.open(path).devices:
        snap = mr.open(path, device=device)
        replay = snap.replay(device)
        draw = random.Random(path.name)
        some = [draw.randrange(-1, replay.events) for _ in range(3)]
        check(snap, [replay.peak.event_index - replay.first_event, *some])


@given(traces(max_devices=1), of_blocks(1), st.integers(-1, 30))
def test_groups_by_holder_match_those_of_at(
    snapshot: Any, noted: dict[int, int], event: int
) -> None:
    data = build.dump(with_holders(snapshot, GROUPS, noted))
    for device in mr.open(data).devices:
        snap = mr.open(data, device=device)
        check(snap, [min(event, snap.replay(device).events - 1)])


def test_holder_is_a_detail_of_an_allocation() -> None:
    page = Read(mr.open(build.dump(two_lists())))
    (groups,) = (one for one in page.data.devices[0].groups if one.way == "holder")
    assert (groups.title, groups.detail) == ("held by", True)
    assert [page.lines(groups)[one] for one in page.groups(page.data.devices[0], groups)] == [
        ("losses[…] (list) in train() train.py:12",),
        ("cache[…] (list) in serve() train.py:7",),
        ("(freed before the recorder looked)",),
        ("(holder not recorded)",),
    ]


def annotated() -> mr.Snapshot:
    """Build allocations with two stacks and one without a stack. One of the stacks is used under
    two annotations in turn, with metadata.
    """
    made = SnapshotBuilder(compile_context="graph_1")
    made.segment(0x9000, 1 << 21, blocks=[made.block(0x9000, 512, 300)])
    one = [("forward", "/home/me/model.py", 3), ("main", "/home/me/run.py", 9)]
    other = [("step", "/home/me/run.py", 5), ("main", "/home/me/run.py", 10)]
    made.alloc(0x1000, 100, frames=one).alloc(0x2000, 700, frames=other)
    made.annotation("warm", "START").alloc(0x3000, 100, frames=one).annotation("warm", "END")
    made.alloc(0x4000, 0)
    return mr.open(build.dump(made.build()))


def ways(snap: mr.Snapshot, **options: Any) -> dict[str, list[tuple[str, ...]]]:
    """Return the lines for each allocation's group, by key."""
    page = Read(snap, **options)
    (device,) = page.data.devices
    return {
        groups.way: [page.lines(groups)[one] for one in page.groups(device, groups)]
        for groups in device.groups
    }


def test_groups_are_named_like_in_reports() -> None:
    found = ways(annotated())
    assert list(found) == [
        "stack",
        "line",
        "innermost",
        "function",
        "file",
        "directory",
        "module",
        "category",
        "phase",
        "annotation",
        "compile_context",
        "stream",
        "pool",
        "size",
    ]
    before, forward, step, again, without = found["stack"]
    assert before == ("(allocated before the recording)",)
    assert forward == again == ("forward  /home/me/model.py:3", "main  /home/me/run.py:9")
    assert step == ("step  /home/me/run.py:5", "main  /home/me/run.py:10")
    assert without == ('(recorded without a stack)  record with stacks="all" to name it',)
    assert found["function"] == [before, ("forward",), ("step",), ("forward",), without]
    outside = ("(outside of annotations)",)
    assert found["annotation"] == [outside, outside, outside, ("warm",), outside]
    assert found["compile_context"] == [("(no compile_context)",), *[("graph_1",)] * 4]
    assert found["size"] == [
        ("256 B to 512 B",),
        ("64 B to 128 B",),
        ("512 B to 1 KiB",),
        ("64 B to 128 B",),
        ("0 B",),
    ]
    assert found["stream"] == [("default stream",)] * 5


def test_user_rules_set_the_category() -> None:
    rules = (Rule(name="mine", frames="run.py:main"), *DEFAULT_RULES)
    found = ways(annotated(), rules=rules)
    assert found["category"][1:4] == [("mine",)] * 3
    assert found["category"][0] != ("mine",)
    check(annotated(), [-1, 0, 3], rules)


def test_keys_without_data_are_left_out() -> None:
    made = SnapshotBuilder(stacks=False).alloc(0x1000, 100).alloc(0x2000, 100, pool_id=(0, 0))
    found = ways(mr.open(build.dump(made.build())))
    assert list(found) == ["stack", "stream", "pool", "size"]
    assert found["stack"] == [("(recorded without a stack)",)] * 2
    assert found["pool"] == [("(pool not known)",), ("default pool",)]


def test_device_without_allocations_has_no_groups() -> None:
    made = SnapshotBuilder().segment_alloc(0x1000, 1 << 21)
    (device,) = Read(mr.open(build.dump(made.build()))).data.devices
    assert device.groups == ()


def test_stacks_that_differ_only_in_plumbing_are_merged() -> None:
    made = SnapshotBuilder()
    for at, inner in enumerate((("at::empty(long)", "??", 0), ("c10::alloc()", "??", 0))):
        frames = [inner, ("forward", "/home/me/model.py", 3)]
        made.alloc(0x1000 * (at + 1), 100, frames=frames)
    page = Read(mr.open(build.dump(made.build())))
    (device,) = page.data.devices
    stack = next(one for one in device.groups if one.way == "stack")
    innermost = next(one for one in device.groups if one.way == "innermost")
    assert page.groups(device, innermost) == [0, 1]
    lines = page.lines(stack)
    assert len(set(page.groups(device, stack))) == len(lines)


def test_indistinguishable_stacks_get_distinct_names() -> None:
    made = SnapshotBuilder()
    for at in range(2):
        inner = [("f", f"/home/me/{name}.py", 1) for name in "abcd"]
        made.alloc(0x1000 * (at + 1), 100, frames=[*inner, ("g", "/home/me/z.py", at)])
    page = Read(mr.open(build.dump(made.build())))
    (device,) = page.data.devices
    one, other = page.lines(device.groups[0])
    assert one[:3] == other[:3]
    assert {one[-1], other[-1]} == {"… g  /home/me/z.py", "… g  /home/me/z.py:1"}


def test_stacks_found_only_in_frees_have_no_group() -> None:
    made = SnapshotBuilder().alloc(0x1000, 100, frames=[("f", "/a.py", 1)])
    made.free_completed(0x1000, 100, frames=[("g", "/b.py", 2)])
    page = Read(mr.open(build.dump(made.build())))
    (device,) = page.data.devices
    assert page.lines(device.groups[0]) == [("f  /a.py:1",)]
    of_stacks = device.groups[0].of_stacks
    assert of_stacks is not None
    assert of_stacks.rows == len(page.column(page.data.stack_frames)) + 2


def test_groups_of_a_range_match_those_of_at() -> None:
    path = next(one for one in SNAPSHOTS if one.name == "transformer_step.pkl.gz")
    snap = mr.open(path, start=2_000, stop=5_000)
    check(snap, [-1, 10, 2_999])
