"""Block maps match the allocator model's internal state."""

from __future__ import annotations

import random
from array import array
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import blockers_of
from memreplay.analysis.groups.ways import WAYS
from memreplay.engine.query import _blockmap, _groups
from tests import build
from tests.allocator_blocks import MIB, PoolId
from tests.allocator_strategies import SETTINGS
from tests.examples import examples
from tests.oracle_ways import Named
from tests.pictures import Picture, Pictures, Range, Tile, blocked, record_pictures, units
from tests.property.test_measures import is_exact
from tests.unit.engine.query.test_keying import KINDS, Asked, spelled

STATES = {_blockmap.FREE: "free", _blockmap.IN_USE: "in_use", _blockmap.PENDING: "pending"}

programs = st.builds(
    record_pictures,
    seed=st.integers(0, 2**32 - 1),
    settings=st.sampled_from(list(SETTINGS)),
    steps=st.integers(0, 150),
    late=st.one_of(st.just(0), st.integers(0, 150)),
)


def found_ranges(replay: mr.Replay, found: _blockmap.BlockMap) -> list[Range]:
    """Return the engine's map in the format of `Picture`."""
    columns = [memoryview(found.tiles(name)).tolist() for name in ("address", "size", "requested")]
    states = [STATES[state] for state in memoryview(found.tiles("state"))]
    tiles = [Tile(*row) for row in zip(*columns, states, strict=True)]
    ranges = []
    for i in range(found.n_segments):
        address, stream, pool, small, expandable, _, first, n, sums = found.segment(i)
        name = replay.pool_of(pool) or (0, 0)
        mine = tiles[first : first + n]
        ranges.append(Range(address, sums["size"], name, stream, small, expandable, mine))
    return ranges


def has_requests(made: Pictures) -> bool:
    """Return whether a trace has free_requested events; if not, the recorder is assumed to have
    skipped them.
    """
    return any(one["action"] == "free_requested" for one in made.snapshot["device_traces"][0])


@settings(max_examples=examples(400))
@given(made=programs)
def test_every_block_matches_the_truth(made: Pictures) -> None:
    snap = mr.open(build.dump(made.snapshot))
    if not snap.devices or not has_requests(made):
        return
    replay = snap.replay()
    if not is_exact(replay):
        return
    for want in made.pictures:
        found = replay.block_map(want.event)
        assert found_ranges(replay, found) == want.ranges
        assert_sums(found, want)


def assert_sums(found: _blockmap.BlockMap, want: Picture) -> None:
    sums = found.sums()
    for state in ("free", "in_use", "pending"):
        assert sums[state] == sum(one.sum(state) for one in want.ranges)
    assert sums["size"] == sum(one.size for one in want.ranges)
    assert sums["segments"] == len(want.ranges)
    free = [tile.size for one in want.ranges for tile in one.tiles if tile.state == "free"]
    assert (sums["largest"], sums["blocks_free"]) == (max(free, default=0), len(free))
    assert found.returnable[0] == want.returned
    assert found.private_returnable[0] == want.returned_private
    assert found.blocked == sum(blocked(one)[0] for one in want.ranges)
    assert found.blocked + found.returnable[1] + found.private_returnable[1] == sums["free"]
    assert found.outside == (0, 0)


@settings(max_examples=examples(150))
@given(
    made=programs, kinds=st.lists(st.sampled_from([*KINDS, "size", "row"]), min_size=1, max_size=2)
)
def test_blockers_match_a_slow_reference(made: Pictures, kinds: list[str]) -> None:
    snap = mr.open(build.dump(made.snapshot))
    for device in snap.devices:
        asked = Asked(snap, device, "active")
        replay = asked.replay
        every = [keys_of(asked, kind) for kind in kinds]
        keys = every[0] if len(every) == 1 else _groups.pair(*every)
        for want in made.pictures:
            found = replay.block_map(want.event)
            rows, total, whole, blocks = found.blockers(keys, 0)
            named = {row[0]: spelled(keys, row[0]) for row in rows}
            assert {named[row[0]]: row[1:] for row in rows} == slow_pins(asked, found, kinds)
            assert (total, whole) == (len(rows), found.blocked)
            assert whole == sum(row[1] for row in rows)
            assert blocks == sum(row[2] for row in rows)
            assert rows == sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))
            assert found.blockers(keys, 2)[0] == rows[:2]


def keys_of(asked: Asked, kind: str) -> _groups.Keys:
    native = asked.replay.native
    if kind == "size":
        return _groups.size_keys(asked.measure)
    if kind == "row":
        rows = array("I", (i % 3 for i in range(asked.replay.events)))
        return _groups.row_keys(native, rows, 3)
    return asked.keys(kind)


def slow_pins(
    asked: Asked, found: _blockmap.BlockMap, kinds: list[str]
) -> dict[object, tuple[int, int, int, int]]:
    """Return (bytes, blocks, segments, bytes that only this group blocks) for each group."""

    def name_of(kind: str, carried: bool, row: int, stack: int) -> object:
        if kind == "size":
            return (asked.carried_weights if carried else asked.weights)[row].bit_length() - 1
        if kind == "row":
            return 3 if carried else row % 3
        return asked.stack_name(kind)(carried, row, stack)

    keys: dict[int, object] = {}
    stacks, owners = (memoryview(found.tiles(name)) for name in ("stack", "owner"))
    for addr, stack, owner in zip(memoryview(found.tiles("address")), stacks, owners, strict=True):
        if owner == _blockmap.NO_OWNER:
            continue
        carried = owner >= _blockmap.CARRIED
        row = owner & ~_blockmap.CARRIED
        names = tuple(name_of(kind, carried, row, stack) for kind in kinds)
        keys[addr] = names[0] if len(names) == 1 else names
    sums: dict[object, list[int]] = {}
    pinners: dict[object, tuple[set[int], set[int]]] = {}
    for one in found_ranges(asked.replay, found):
        for addr, part in blocked(one)[1].items():
            if part or addr in held_addresses(one):
                sums.setdefault(keys[addr], [0, 0])[0] += part
                blocks, segments = pinners.setdefault(keys[addr], (set(), set()))
                blocks.add(addr)
                segments.add(one.addr)
        for addrs, free in held_units(one):
            if len({keys[addr] for addr in addrs}) == 1:
                sums[keys[addrs[0]]][1] += free
    return {
        key: (size, len(pinners[key][0]), len(pinners[key][1]), alone)
        for key, (size, alone) in sums.items()
    }


def held_units(one: Range) -> list[tuple[list[int], int]]:
    """Return each unit's used blocks and free bytes, if it has both."""
    found = []
    for start, end in units(one):
        inside = [t for t in one.tiles if t.addr < end and t.addr + t.size > start]
        holders = [tile.addr for tile in inside if tile.state == "in_use"]
        free = sum(
            min(t.addr + t.size, end) - max(t.addr, start) for t in inside if t.state == "free"
        )
        if holders and free:
            found.append((holders, free))
    return found


def held_addresses(one: Range) -> set[int]:
    return {addr for addrs, _ in held_units(one) for addr in addrs}


@settings(max_examples=examples(150))
@given(made=programs, seed=st.integers(0, 99))
def test_every_free_byte_is_classified_once(made: Pictures, seed: int) -> None:
    rng = random.Random(seed)
    snap = mr.open(build.dump(made.snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        split = replay.settings.max_split_bytes
        split = split if split >= 0 else 2**63
        for want in made.pictures:
            found = replay.block_map(want.event)
            size = rng.choice((512, MIB, 2 * MIB, 8 * MIB, 21 * MIB, 40 * MIB))
            keys = {(one.pool, one.stream, one.small) for one in found_ranges(replay, found)}
            pool, stream, small = rng.choice(sorted(keys) or [((0, 0), 0, True)])
            ids = [key for key, *_ in found.shares() if replay.pool_of(key) == pool]
            judged = found.judge(size, ids[0] if ids else None, stream, small)
            slow = slow_judge(found_ranges(replay, found), size, pool, stream, small, split)
            for name, (whole, largest) in slow.items():
                assert judged[name] == (whole, largest), name
            parts = [judged[name][0] for name in slow if name not in ("pending", "run")]
            assert sum(parts) == found.sums()["free"]


def slow_judge(
    ranges: list[Range], size: int, pool: PoolId, stream: int, small: bool, split: int
) -> dict[str, tuple[int, int]]:
    kinds: dict[str, list[int]] = {
        name: []
        for name in (
            "fits", "too_small", "split_limit", "other_stream", "other_kind", "other_pool",
        )
    }  # fmt: skip
    for one in ranges:
        for tile in one.tiles:
            if tile.state != "free":
                continue
            if one.pool != pool:
                kind = "other_pool"
            elif one.small != small:
                kind = "other_kind"
            elif one.stream != stream:
                kind = "other_stream"
            elif tile.size < size:
                kind = "too_small"
            elif size < split <= tile.size or (split <= size and tile.size >= size + 20 * MIB):
                kind = "split_limit"
            else:
                kind = "fits"
            kinds[kind].append(tile.size)
    return {kind: (sum(sizes), max(sizes, default=0)) for kind, sizes in kinds.items()}


@settings(max_examples=examples(100))
@given(made=programs, cells=st.integers(1, 200))
def test_segment_bars_match_a_slow_reference(made: Pictures, cells: int) -> None:
    snap = mr.open(build.dump(made.snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        found = replay.block_map(made.pictures[-1].event)
        for i, one in enumerate(found_ranges(replay, found)):
            assert found.bar(i, cells) == slow_bar(one, cells)


def slow_bar(one: Range, cells: int) -> str:
    bar = ""
    for cell in range(cells):
        start, end = (one.addr + one.size // cells * i + one.size % cells * i // cells
                      for i in (cell, cell + 1))  # fmt: skip
        inside = {"free": 0, "in_use": 0, "pending": 0}
        for t in one.tiles:
            inside[t.state] += max(0, min(t.addr + t.size, end) - max(t.addr, start))
        if inside["in_use"]:
            bar += "#" if 2 * inside["in_use"] > end - start else "+"
        else:
            bar += "~" if inside["pending"] else "."
    return bar


@settings(max_examples=examples(100))
@given(made=programs, seed=st.integers(0, 99))
def test_maps_of_a_range_match_the_whole_file(made: Pictures, seed: int) -> None:
    data = build.dump(made.snapshot)
    snap = mr.open(data)
    if not snap.devices or not snap.replay().events:
        return
    rng = random.Random(seed)
    whole = snap.replay()
    start = rng.randrange(whole.events)
    part = mr.open(data, start=start, stop=rng.randint(start, whole.events)).replay()
    if not (is_exact(whole) and is_exact(part) and has_requests(made)):
        return
    event = rng.randint(part.start, part.start + part.events)
    assert found_ranges(part, part.block_map(event)) == found_ranges(whole, whole.block_map(event))


@settings(max_examples=examples(150))
@given(
    made=programs,
    by=st.lists(st.sampled_from([*WAYS]), min_size=1, max_size=3, unique=True).map(",".join),
)
def test_blockers_add_up_for_any_keys(made: Pictures, by: str) -> None:
    snap = mr.open(build.dump(made.snapshot))
    for device in snap.devices:
        replay = snap.replay(device)
        usage = replay.measure("active")
        named = Named(made.snapshot, snap, usage)
        for want in made.pictures[:3]:
            found = replay.block_map(want.event)
            columns = [memoryview(found.tiles(name)) for name in ("address", "owner")]
            owners = dict(zip(*columns, strict=True))
            slow: Counter[str] = Counter()
            for one in found_ranges(replay, found):
                for addr, part in blocked(one)[1].items():
                    carried = owners[addr] >= _blockmap.CARRIED
                    row = owners[addr] & ~_blockmap.CARRIED
                    slow[named.label(by, row, carried=carried)] += part
            pins, total, rest, _ = blockers_of(usage, found, Grouper(snap, by), 0)
            shown: Counter[str] = Counter()
            for pin in pins:
                shown[pin.label] += pin.bytes
            assert (total, rest) == (len(pins), 0)
            assert +shown == +slow
            assert sum(slow.values()) == found.blocked
