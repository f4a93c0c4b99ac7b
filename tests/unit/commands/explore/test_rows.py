"""Tests of explore/rows.py and explored.py: each number is that of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.groups.calltree import TreeShape
from memreplay.analysis.groups.tree import Call
from memreplay.commands.explore.explored import Explored
from memreplay.commands.explore.look import Look
from memreplay.commands.explore.rows import (
    ChangeRows,
    GroupRows,
    ListRows,
    PartRows,
    SegmentRows,
    TreeRows,
)
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.errors import UsageError
from memreplay.render.units import counted, percent, signed_size, size
from memreplay.snapshot.model import MEASURES, WAYS, By, Filters, When
from tests.build import SnapshotBuilder, dump
from tests.conftest import SNAPSHOTS

NAMES = ("two_gpus", "recorded_gpt", "serving_oom", "cuda_graphs", "rank0")
FILES = [next(path for path in SNAPSHOTS if path.name.startswith(name)) for name in NAMES]


@pytest.fixture(params=FILES, ids=lambda path: path.name.removesuffix(".pkl.gz"))
def explored(request: pytest.FixtureRequest) -> Explored:
    return Explored(mr.open(request.param))


def moments(explored: Explored, device: int) -> list[int]:
    """The start, the peak, the end, and some between them."""
    low, high = explored.bounds(device)
    peak = explored.first_look(device).event
    return sorted({low, peak, (low + high) // 2})


def test_groups_are_those_of_at(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        for by in ("stack", "category", "file", "stack,size"):
            for event in moments(explored, device):
                shown = replace(look, event=event, view="groups", by=by, whole=True)
                rows = explored.rows(shown)
                assert isinstance(rows, GroupRows)
                (found,) = mr.at(
                    explored.snap, When("event", event), by=by, device=device, top=200
                ).devices
                assert [rows.group(i) for i in range(len(rows.found))] == list(found.groups)
                assert rows.total == found.groups_total
                for i, group in enumerate(found.groups):
                    line = rows.line(i)
                    assert line.cells[:2] == (size(group.bytes), percent(group.share))
                if rows.rest:
                    assert rows.line(len(rows) - 1).cells[0] == size(found.rest_bytes)


def test_pools_are_those_of_at(explored: Explored) -> None:
    for device in explored.snap.devices:
        for measure in MEASURES:
            look = replace(explored.first_look(device), measure=measure, view="groups", by="pool")
            rows = explored.rows(look)
            assert isinstance(rows, PartRows)
            (found,) = mr.at(
                explored.snap,
                When("event", look.event),
                measure=measure,
                by="pool",
                device=device,
                top=0,
            ).devices
            assert list(rows.groups) == list(found.groups)


def test_the_list_is_that_of_at(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        for event in moments(explored, device):
            rows = explored.rows(replace(look, event=event, view="list"))
            assert isinstance(rows, ListRows)
            (found,) = mr.at(
                explored.snap, When("event", event), listed=True, device=device, top=200
            ).devices
            there = found.allocations or ()
            assert rows.total == found.live_count
            assert [rows.address(i) for i in range(len(rows.found))] == [
                one.address for one in there
            ]
            for i, one in enumerate(there):
                line, shown = rows.line(i), dict(rows.shown(i).pairs)
                assert line.cells[0] == size(one.bytes)
                assert shown["address"] == f"0x{one.address:x}"
                freed = "never" if one.free_event is None else f"at event {one.free_event:,}"
                assert shown["freed"] == freed
                made = "before the first event"
                if one.alloc_event is not None:
                    made = f"at event {one.alloc_event:,}"
                assert shown["made"] == made


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_the_tree_is_that_of_at(explored: Explored, whole: bool, inverted: bool) -> None:
    explored.share = 0.001
    for device in explored.snap.devices:
        look = replace(explored.first_look(device), whole=whole, inverted=inverted)
        for event in moments(explored, device):
            rows = explored.rows(replace(look, event=event))
            assert isinstance(rows, TreeRows)
            (found,) = mr.at(
                explored.snap,
                When("event", event),
                device=device,
                tree=TreeShape(share=0.001, whole=whole, inverted=inverted),
            ).devices
            assert found.tree
            for key in rows.keys:
                explored.open[key] = True
            rows.unfold()
            calls = [row for row in range(len(rows.visible)) if rows.visible[row] >= 0]
            assert len(calls) == len(found.tree.calls)
            for row, call in zip(calls, found.tree.calls, strict=True):
                line = rows.line(row)
                assert line.cells == (size(call.bytes), percent(call.share), f"{call.count:,}")
                assert line.text.startswith(call.label)
                assert line.level == call.level - 1
            hidden = [row for row in range(len(rows.visible)) if rows.visible[row] < 0]
            assert [rows.line(row).cells[0] for row in hidden] == [
                size(call.hidden_bytes) for call in _closing(found.tree.calls) if call.hidden
            ]
            assert rows.left_out == found.tree.hidden_bytes
            explored.open.clear()


def _closing(calls: tuple[Call, ...]) -> list[Call]:
    """The calls in the order in which what is below them ends."""
    found: list[Call] = []
    above: list[Call] = []
    for call in calls:
        while above and above[-1].level >= call.level:
            found.append(above.pop())
        above.append(call)
    return found + above[::-1]


def test_segments_are_those_of_fragmentation(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = replace(explored.first_look(device), view="segments")
        rows = explored.rows(look)
        assert isinstance(rows, SegmentRows)
        found = fragmentation_report(
            explored.snap, at=When("event", look.event), device=device, top=0, bars=30
        ).devices[0]
        assert len(rows) == found.map_total == len(found.map)
        for at, one in enumerate(found.map):
            assert rows.key(at) == one.address
            assert rows.line(at).text.startswith(one.bar)
            assert rows.line(at).cells == (
                size(one.reserved_bytes),
                size(one.in_use_bytes),
                size(one.free_bytes),
            )
            assert dict(rows.shown(at).pairs)["largest free"] == size(one.largest_free_bytes)


def test_blocks_are_those_of_fragmentation(explored: Explored) -> None:
    explored.most = 100_000
    for device in explored.snap.devices:
        first = replace(explored.first_look(device), view="segments")
        for event in moments(explored, device):
            look = replace(first, event=event)
            found = fragmentation_report(
                explored.snap, at=When("event", event), device=device, top=0, blocks=True
            ).devices[0]
            explored.opened = {one.address for one in found.map}
            rows = explored.rows(look)
            assert isinstance(rows, SegmentRows)
            assert len(rows) == sum(1 + len(one.blocks) for one in found.map)
            at = 0
            for one in found.map:
                assert (rows.key(at), rows.line(at).level, rows.line(at).sign) == (
                    one.address,
                    0,
                    "-",
                )
                sums = dict.fromkeys(("in use", "pending", "free"), 0)
                for block in one.blocks:
                    at += 1
                    line, shown = rows.line(at), rows.shown(at)
                    told = dict(shown.pairs)
                    number = rows.visible[at][1]
                    assert number is not None
                    there = rows.block(number)
                    sums[there.state] += there.size
                    assert rows.key(at) == ("block", block.address)
                    assert (there.address, there.size, there.requested, there.state) == (
                        block.address,
                        block.bytes,
                        block.requested_bytes,
                        block.state.replace("_", " "),
                    )
                    assert line.level == 1
                    assert line.cells == (
                        size(block.bytes),
                        size(block.bytes) if block.state == "in_use" else "",
                        size(block.bytes) if block.state == "free" else "",
                    )
                    assert line.text.startswith(f"{block.address:x}  ")
                    assert (told["address"], told["state"]) == (f"0x{block.address:x}", there.state)
                    assert told["size"].startswith(size(block.bytes))
                    if block.state == "free":
                        assert line.text.endswith("  free")
                        assert (shown.title, shown.frames) == ("free block", ())
                    else:
                        assert size(block.requested_bytes) in line.text
                        assert line.text.endswith(block.label)
                        assert shown.title == block.label
                        assert told["requested"].startswith(size(block.requested_bytes))
                        assert "category" in told
                assert (sums["in use"], sums["pending"], sums["free"]) == (
                    one.in_use_bytes,
                    one.pending_bytes,
                    one.free_bytes,
                )
                at += 1
            assert at == len(rows)


def test_a_block_is_told_as_its_allocation_is(explored: Explored) -> None:
    explored.most = 100_000
    for device in explored.snap.devices:
        look = replace(explored.first_look(device), measure="active")
        listed = explored.rows(replace(look, view="list"))
        assert isinstance(listed, ListRows)
        there = {}
        for at in range(len(listed)):
            shown = listed.shown(at)
            there[dict(shown.pairs)["address"]] = shown
        rows = explored.rows(replace(look, view="segments"))
        assert isinstance(rows, SegmentRows)
        for at in reversed(range(len(rows))):
            rows.toggle(at)
        found = {}
        for at in range(len(rows)):
            shown = rows.shown(at)
            told = dict(shown.pairs)
            if told.get("state", "free") == "free":
                continue
            found[told["address"]] = shown
            other = there[told["address"]]
            assert (shown.title, shown.frames, shown.user) == (
                other.title,
                other.frames,
                other.user,
            )
            same = [pair for pair in other.pairs if pair[0] != "held"]
            assert [pair for pair in shown.pairs if pair in same] == same
        outside = rows.map.outside[1]
        assert len(found) + outside >= len(there)


def test_a_block_whose_free_is_requested_pends() -> None:
    explored = Explored(mr.open(FILES[0]))
    look = replace(explored.first_look(0), view="segments")
    low, high = explored.bounds(0)
    replay = explored.snap.replay(0)
    event = next(at for at in range(low, high) if replay.block_map(at).sums()["pending"])
    rows = explored.rows(replace(look, event=event))
    assert isinstance(rows, SegmentRows)
    for at in reversed(range(len(rows))):
        rows.toggle(at)
    found = [at for at in range(len(rows)) if dict(rows.shown(at).pairs).get("state") == "pending"]
    assert found
    for at in found:
        block = rows.block(rows.visible[at][1] or 0)
        line, told = rows.line(at), dict(rows.shown(at).pairs)
        assert line.cells == (size(block.size), "", "")
        assert line.text.startswith(f"{block.address:x}  pending  {size(block.requested):>9}  ")
        assert int(told["freed"].removeprefix("at event ").replace(",", "")) > event
        assert "pending" in rows.texts(at)


def test_a_segment_of_many_blocks_is_cut() -> None:
    explored = Explored(mr.open(FILES[1]))
    explored.most = 3
    rows = explored.rows(replace(explored.first_look(0), view="segments"))
    assert isinstance(rows, SegmentRows)
    closed = len(rows)
    at = next(at for at in range(closed) if rows.map.segment(rows.order[at])[7] > 5)
    *_, tiles, sums = rows.map.segment(rows.order[at])
    assert rows.line(at).sign == "+"
    rows.toggle(at)
    assert len(rows) == closed + 4
    blocks = [rows.block(rows.visible[at + i][1] or 0) for i in (1, 2, 3)]
    rest = rows.rest(rows.order[at])
    assert rest["blocks"] == tiles - 3
    assert rest["size"] + sum(block.size for block in blocks) == sums["size"]
    assert rest["requested"] + sum(block.requested for block in blocks) == sums["requested"]
    for state, key in (("in use", "in_use"), ("pending", "pending"), ("free", "free")):
        shown = sum(block.size for block in blocks if block.state == state)
        assert rest[state] + shown == sums[key]
    line = rows.line(at + 4)
    assert line.text.startswith(f"{tiles - 3:,} more block")
    assert line.cells == (size(rest["size"]), size(rest["in use"]), size(rest["free"]))
    assert dict(rows.shown(at + 4).pairs)["blocks"] == f"{tiles - 3:,}"
    assert rows.is_rest(at + 4)
    rows.toggle(at + 4)
    assert len(rows) == closed + 4  # a block is not opened
    rows.toggle(at)
    assert len(rows) == closed


def test_changes_are_what_at_says_of_both_ends(explored: Explored) -> None:
    explored.most = 100_000
    for device in explored.snap.devices:
        low, high = explored.bounds(device)
        peak = explored.first_look(device).event
        for by in ("stack", "category", "file,size"):
            for span in ((low, peak), (peak, high), (low, high)):
                if span[0] == span[1]:
                    continue
                look = replace(
                    explored.first_look(device),
                    view="change",
                    by=by,
                    whole=True,
                    begin=span[1],
                    end=span[0],
                )
                rows = explored.rows(look)
                assert isinstance(rows, ChangeRows)
                ends: list[dict[int, tuple[int, int]]] = []
                usage, grouper = explored.usage(look), explored.grouper(by, fold=False)
                for event in span:
                    keys, groups, *_ = grouper.keyed_groups(usage, event, 0)
                    names = memoryview(grouper.keys(usage).names())
                    ends.append(
                        {
                            names[key]: (group.bytes, group.count)
                            for key, group in zip(keys, groups, strict=True)
                        }
                    )
                before, after = ends
                listed = dict(rows.found)
                assert len(listed) == len(rows) == rows.total
                for name in {*before, *after}:
                    held = before.get(name, (0, 0)), after.get(name, (0, 0))
                    if name not in listed:
                        assert held[0] == held[1]
                        continue
                    flow = listed[name]
                    assert (flow.before_bytes, flow.before) == held[0]
                    assert (flow.after_bytes, flow.after) == held[1]
                for name in listed.keys() - {*before, *after}:
                    assert (listed[name].before, listed[name].after) == (0, 0)
                    assert listed[name].came == listed[name].went > 0
                assert rows.whole.change_bytes == usage.bytes_at(span[1]) - usage.bytes_at(span[0])
                order = [
                    (-abs(flow.change_bytes), -(flow.came_bytes + flow.went_bytes))
                    for _, flow in rows.found
                ]
                assert order == sorted(order)


def test_what_came_is_what_allocations_says(explored: Explored) -> None:
    explored.most = 100_000
    for device in explored.snap.devices:
        low, high = explored.bounds(device)
        if low == high:
            continue
        look = replace(explored.first_look(device), view="change", by="category", whole=True)
        rows = explored.rows(replace(look, begin=low, end=high))
        assert isinstance(rows, ChangeRows)
        (found,) = mr.allocations(explored.snap, device=device, by="category", top=0).devices
        came = {rows.group(at).label: rows.flow(at) for at in range(len(rows))}
        for group in found.groups:
            flow = came[group.label]
            assert (flow.came_bytes, flow.came) == (group.bytes, group.count)
        assert rows.whole.came == sum(group.count for group in found.groups)
        assert rows.whole.came_bytes == sum(group.bytes for group in found.groups)


def test_a_change_that_is_cut_has_all_the_rest_in_one_row(explored: Explored) -> None:
    device = explored.snap.devices[0]
    low, high = explored.bounds(device)
    look = replace(explored.first_look(device), view="change", begin=low, end=high)
    explored.most = 100_000
    every = explored.rows(look)
    explored.most = 2
    rows = explored.rows(look)
    assert isinstance(every, ChangeRows)
    assert isinstance(rows, ChangeRows)
    if every.total < 3:
        assert len(rows) == every.total
        return
    assert len(rows) == 3
    assert rows.total == every.total == len(every)
    rest = [sum(column) for column in zip(*(flow for _, flow in every.found[2:]), strict=True)]
    assert list(rows.flow(2)) == rest
    assert rows.line(2).text.startswith(f"{every.total - 2:,} more group")
    assert rows.line(2).cells == (
        signed_size(rest[2] - rest[4]),
        size(rest[2]),
        size(rest[4]),
        size(rest[0] + rest[2] - rest[4]),
    )
    told = dict(rows.shown(0).pairs)
    flow = rows.flow(0)
    assert told["before"].startswith(size(flow.before_bytes))
    assert told["came"] == f"{size(flow.came_bytes)} in {counted(flow.came, 'block')}"
    assert told["went"] == f"{size(flow.went_bytes)} in {counted(flow.went, 'block')}"


def test_what_came_and_went_again_is_a_row() -> None:
    builder = SnapshotBuilder().alloc(512, 100, frames=[("f", "/w/a.py", 1)])
    builder.alloc(2048, 700, frames=[("g", "/w/a.py", 2)]).free_completed(2048, 700)
    explored = Explored(mr.open(dump(builder.build())))
    look = replace(explored.first_look(0), view="change", begin=0, end=2)
    rows = explored.rows(look)
    assert [rows.line(at).text for at in range(len(rows))] == ["g /w/a.py:2"]
    assert rows.line(0).cells == ("0 B", "700 B", "700 B", "0 B")
    rows = explored.rows(replace(look, begin=2, end=1))
    assert rows.line(0).cells == ("-700 B", "0 B", "700 B", "0 B")
    part = explored.snap.replay(0).measure()
    with pytest.raises(UsageError, match="no events 2 to 1"):
        part.traffic(explored.grouper("stack", fold=False).keys(part), 2, 1, 0)


def test_a_range_of_what_was_read_alone() -> None:
    found = []
    for snap in (mr.open(FILES[1]), mr.open(FILES[1], start=1000, stop=2000)):
        explored = Explored(snap)
        look = replace(explored.first_look(0), view="change", by="size", begin=1200, end=1800)
        rows = explored.rows(look)
        found.append({(rows.line(at).cells, rows.line(at).text) for at in range(len(rows))})
    assert found[0] == found[1] != set()


@pytest.mark.parametrize("by", WAYS)
def test_every_way_and_measure_has_rows(by: By) -> None:
    explored = Explored(mr.open(FILES[0]))
    for measure in MEASURES:
        look = replace(
            explored.first_look(explored.snap.devices[0]), by=by, view="groups", measure=measure
        )
        look = explored.fitting(look)
        rows = explored.rows(look)
        assert len(rows) > 0
        for at in range(len(rows)):
            assert rows.line(at).text
            assert rows.shown(at).title


def test_filters_leave_what_peak_leaves() -> None:
    path = next(path for path in FILES if path.name.startswith("recorded_gpt"))
    explored = Explored(mr.open(path))
    filters = Filters(include=("forward",), min_bytes=1 << 20)
    look = replace(explored.first_look(0), filters=filters, view="groups", by="file")
    usage = explored.usage(look)
    (found,) = mr.peak(explored.snap, filters=filters, by="file").devices
    assert usage.peak.bytes == found.peak_bytes
    rows = explored.rows(replace(look, event=found.event_index))
    assert isinstance(rows, GroupRows)
    assert [rows.group(i).bytes for i in range(len(rows.found))] == [
        group.bytes for group in found.groups
    ]
    with pytest.raises(UsageError):
        explored.usage(replace(look, filters=Filters(include=("no such thing",))))


@pytest.mark.parametrize("axis", ["event", "time"])
@pytest.mark.parametrize("columns", [1, 7, 100, 300])
def test_a_curve_has_each_event_once(explored: Explored, axis: str, columns: int) -> None:
    for device in explored.snap.devices:
        whole = explored.first_look(device)
        replay = explored.replay(whole)
        low, high = explored.bounds(device)
        windows = {(low, high), (low, (low + high) // 2), ((low + high) // 2, high)}
        for first, last in windows:
            look = replace(whole, axis=axis, first=first, last=last, event=last)
            curve = explored.curve(look, columns)
            assert len(curve.lows) == len(curve.highs) == columns
            assert curve.bounds == sorted(curve.bounds)
            base = replay.first_event
            assert curve.bounds[0] == max(first, base)
            assert curve.bounds[-1] == max(last + 1, base)
            usage = explored.usage(look)
            for at in range(columns):
                events = range(curve.bounds[at], curve.bounds[at + 1])
                values = [usage.bytes_at(event) for event in list(events)[:40]] or [
                    usage.bytes_at(curve.bounds[at] - 1)
                ]
                assert curve.lows[at] <= min(values)
                assert max(values) <= curve.highs[at]
                assert usage.bytes_at(curve.high_at[at]) == curve.highs[at]
            for event in {max(first, base), last}:
                if curve.bounds[-1] > curve.bounds[0]:
                    at = explored.column(look, columns, event)
                    assert curve.bounds[at] <= event < curve.bounds[at + 1]


def test_marks_are_those_of_the_reports(explored: Explored) -> None:
    for device in explored.snap.devices:
        look = explored.first_look(device)
        marks = explored.marks(look)
        (found,) = mr.peak(explored.snap, peaks=5, device=device).devices
        there = {point.event_index for point in found.peaks or ()}
        assert there <= set(marks.peaks) or not explored.replay(look).events
        for events in marks:
            assert events == sorted(events)


def test_the_first_look_is_at_the_peak(tmp_path: Path) -> None:
    explored = Explored(mr.open(FILES[0]))
    (found, *_) = mr.peak(explored.snap).devices
    look = explored.first_look(found.device)
    assert look.event == found.event_index
    low, high = explored.bounds(found.device)
    assert look == Look(device=found.device, event=found.event_index, first=low, last=high)


def test_a_range_is_of_allocations_and_has_no_pools(explored: Explored) -> None:
    device = explored.snap.devices[0]
    look = explored.first_look(device)
    low, high = explored.bounds(device)
    shown = replace(look, view="change", by="pool", begin=low, end=high)
    assert explored.fitting(shown).by == "stack"
    assert not {"pool", "stream"} & set(explored.ways(shown))
