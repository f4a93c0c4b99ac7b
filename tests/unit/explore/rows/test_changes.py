"""Tests of explore/rows/changes.py: before + allocated - freed = after, as in other commands."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.errors import UsageError
from memreplay.explore.explored import Explored
from memreplay.explore.rows.changes import ChangeRows
from memreplay.render.units import counted, signed_size, size
from tests.build import SnapshotBuilder, dump
from tests.unit.explore.files import FILES


def test_changes_match_at_for_both_ends(explored: Explored) -> None:
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


def test_new_rows_match_allocations(explored: Explored) -> None:
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


def test_truncated_changes_have_one_row_for_the_rest(explored: Explored) -> None:
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
    assert told["allocated"] == f"{size(flow.came_bytes)} in {counted(flow.came, 'block')}"
    assert told["freed"] == f"{size(flow.went_bytes)} in {counted(flow.went, 'block')}"


def test_short_lived_groups_have_a_row() -> None:
    builder = SnapshotBuilder().alloc(512, 100, frames=[("f", "/w/a.py", 1)])
    builder.alloc(2048, 700, frames=[("g", "/w/a.py", 2)]).free_completed(2048, 700)
    explored = Explored(mr.open(dump(builder.build())))
    look = replace(explored.first_look(0), view="change", begin=0, end=2)
    rows = explored.rows(look)
    assert [rows.line(at).text for at in range(len(rows))] == ["g  /w/a.py:2"]
    assert rows.line(0).cells == ("0 B", "700 B", "700 B", "0 B")
    rows = explored.rows(replace(look, begin=2, end=1))
    assert rows.line(0).cells == ("-700 B", "0 B", "700 B", "0 B")
    part = explored.snap.replay(0).measure()
    with pytest.raises(UsageError, match="events 2 to 1 don't exist"):
        part.traffic(explored.grouper("stack", fold=False).keys(part), 2, 1, 0)


def test_unread_events_are_refused() -> None:
    found = []
    for snap in (mr.open(FILES[1]), mr.open(FILES[1], start=1000, stop=2000)):
        explored = Explored(snap)
        look = replace(explored.first_look(0), view="change", by="size", begin=1200, end=1800)
        rows = explored.rows(look)
        found.append({(rows.line(at).cells, rows.line(at).text) for at in range(len(rows))})
    assert found[0] == found[1] != set()


def test_range_has_allocations_but_no_pools(explored: Explored) -> None:
    device = explored.snap.devices[0]
    look = explored.first_look(device)
    low, high = explored.bounds(device)
    shown = replace(look, view="change", by="pool", begin=low, end=high)
    assert explored.fitting(shown).by == "stack"
    assert not {"pool", "stream"} & set(explored.ways(shown))
