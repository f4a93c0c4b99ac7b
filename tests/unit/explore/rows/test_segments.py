"""Tests of explore/rows/segments.py: every number matches `memreplay fragmentation`."""

from __future__ import annotations

from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.explore.explored import Explored
from memreplay.explore.rows.listed import ListRows
from memreplay.explore.rows.segments import SegmentRows
from memreplay.render.units import size
from memreplay.snapshot.model import When
from tests.unit.explore.files import FILES, moments


def test_segments_match_fragmentation(explored: Explored) -> None:
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


def test_blocks_match_fragmentation(explored: Explored) -> None:
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
                        texts = (line.text, *line.cells)
                        assert any(size(block.requested_bytes) in one for one in texts)
                        assert block.label in " ".join(line.text.split())
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


def test_block_is_described_like_its_allocation(explored: Explored) -> None:
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


def test_block_with_a_requested_free_is_pending() -> None:
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


def test_segment_with_many_blocks_is_truncated() -> None:
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
    assert len(rows) == closed + 4  # a block can't be expanded
    rows.toggle(at)
    assert len(rows) == closed
