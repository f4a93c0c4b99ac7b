"""Tests of _holding.pyx: blocks and the tensors that use them, against plain Python."""

from __future__ import annotations

import random
import sys
import time
from array import array
from typing import Any

import pytest

from memreplay.engine.record._holding import Blocks, Tensors
from memreplay.engine.record._referring import Referrers

STATES = ("active_allocated", "active_pending_free", "inactive")


def segments(rng: random.Random) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """Return random segments, and the requested bytes of the blocks in use by address."""
    found, used = [], {}
    for number in rng.sample(range(1, 50), k=rng.randrange(1, 6)):
        at = number << 30
        blocks: list[dict[str, Any]] = []
        segment = {"address": at, "blocks": blocks}
        for _ in range(rng.randrange(8)):
            size = rng.randrange(1, 9) * 512
            block: dict[str, Any] = {"size": size, "state": rng.choice(STATES)}
            asked = size
            if rng.random() < 0.5:
                block["requested_size"] = asked = size - rng.randrange(512)
            if rng.random() < 0.5:
                block["address"] = at
            if block["state"] == STATES[0]:
                used[at] = asked
            blocks.append(block)
            at += size
        found.append(segment)
    return found, used


@pytest.mark.parametrize("seed", range(30))
def test_blocks_are_given_away_once(seed: int) -> None:
    rng = random.Random(seed)
    given, left = segments(rng)
    blocks = Blocks(given)
    assert (blocks.total_bytes, blocks.left) == (sum(left.values()), len(left))
    every = sorted(left)
    owners: dict[int, int] = {}
    totals = [[0, 0] for _ in range(4)]
    assert [blocks.add_group(True) for _ in range(4)] == [0, 1, 2, 3]
    for _ in range(6):
        number = rng.randrange(3)
        asked = rng.sample([*every, 5, 6], k=min(2, len(every)))
        expected = sum(left.get(at, 0) for at in asked)
        assert blocks.take(number, asked) == expected
        for at in asked:
            if at in left:
                owners[at] = number
                totals[number][0] += left.pop(at)
                totals[number][1] += 1
        assert blocks.left == len(left)
    order = [3, 1, 0, 2]
    addresses, groups = blocks.columns(order)
    assert array("Q", addresses).tolist() == sorted(owners)
    assert array("I", groups).tolist() == [order[owners[at]] for at in sorted(owners)]
    totals[3] = [sum(left.values()), len(left)]
    blocks.take_rest(3)
    assert [blocks.group(number)[:2] for number in range(4)] == [tuple(one) for one in totals]
    assert blocks.left == 0
    assert all((at in blocks) == (at in every) for at in (*every, 5))


def test_small_views_are_counted() -> None:
    state = {"state": STATES[0]}
    blocks = Blocks([{"address": 0x1000, "blocks": [{"size": 1024, **state} for _ in range(3)]}])
    blocks.add_group(True)
    blocks.take(0, [0x1000], 512)
    blocks.take(0, [0x1400], 511)
    blocks.take(0, [0x1400], 1)  # it has been taken
    blocks.take(0, [0x1800])
    assert blocks.group(0) == (3072, 3, 1)


def test_unknown_groups_are_errors() -> None:
    blocks = Blocks([])
    for work in (blocks.group, blocks.take_rest, lambda number: blocks.take(number, [])):
        with pytest.raises(IndexError):
            work(0)
    assert blocks.columns([]) == (b"", b"")


class Tensor:
    """A tensor as far as it's looked at."""

    def __init__(
        self, at: int, nbytes: int, grad_fn: object = None, *, is_leaf: bool = False
    ) -> None:
        self.at, self.nbytes, self.grad_fn, self.is_leaf = at, nbytes, grad_fn, is_leaf
        self.retains_grad = False


class Wrapper(Tensor):
    """One that isn't plain."""


def address(tensor: Tensor) -> int:
    if tensor.at < 0:
        raise RuntimeError("no storage")
    return tensor.at


@pytest.mark.parametrize("seed", range(20))
def test_tensors_take_the_largest_blocks_first(seed: int) -> None:
    rng = random.Random(seed)
    given, sizes = segments(rng)
    places = [*sizes, 0, -1, 77]
    tensors = [
        rng.choice((Tensor, Tensor, Tensor, Wrapper))(
            rng.choice(places), rng.choice((0, 8, 4096)), rng.choice((None, None, object()))
        )
        for _ in range(40)
    ]
    blocks, graph = Blocks(given), Referrers()
    found = Tensors(graph, blocks)
    numbers = [blocks.add_group(known) for known in (True, True, False)]
    assert found.look(tensors, {Tensor}, address, 4096, time.monotonic() + 60)
    plain = [one for one in tensors if type(one) is Tensor]
    odd = [one for one in tensors if type(one) is not Tensor or one.at < 0]
    assert found.others == odd
    rest = [one for one in plain if one.at >= 0]
    assert found.elsewhere == [
        one for one in rest if one.at not in sizes and one.at and one.nbytes >= 4096
    ]
    added = [one for one in rest if one.at in sizes or one.grad_fn]
    assert graph.objects == added
    assert found.graphs == {
        at: one.grad_fn for at, one in enumerate(added) if one.grad_fn is not None
    }
    holders = {at: rng.choice(numbers) for at in range(len(added))}
    uses = [at for at, one in enumerate(added) if one.at in sizes]
    uses.sort(key=lambda at: -sizes[added[at].at])
    asked: list[int] = []

    def named(at: int) -> int:
        asked.append(at)
        graph.name(at, holders[at], False)
        return holders[at]

    expected = {number: [0, 0, 0] for number in numbers}
    taken: set[int] = set()
    for known in (True, False):
        found.take(named, known)
        for at in uses:
            one = added[at]
            if one.at not in taken and (holders[at] != 2) == known:
                taken.add(one.at)
                total = expected[holders[at]]
                total[0] += sizes[one.at]
                total[1] += 1
                total[2] += known and 2 * one.nbytes < sizes[one.at]
    assert {number: list(blocks.group(number)) for number in numbers} == expected
    assert [sizes[added[at].at] for at in asked] == sorted(
        (sizes[added[at].at] for at in asked), reverse=True
    )


def test_tensors_are_let_go() -> None:
    tensors = [Tensor(512, 8), Wrapper(-1, 0), Tensor(-1, 0), Tensor(77, 4096)]
    before = [sys.getrefcount(one) for one in tensors]
    found = Tensors(Referrers(), Blocks([]))
    found.look(tensors, {Tensor}, address, 8, time.monotonic() + 60)
    assert [sys.getrefcount(one) for one in tensors] != before
    del found
    assert [sys.getrefcount(one) for one in tensors] == before


def test_looking_stops_when_time_is_over() -> None:
    blocks = Blocks([])
    found = Tensors(Referrers(), blocks)
    assert not found.look([Tensor(-1, 0)], {Tensor}, address, 0, time.monotonic() - 1)
    assert found.others == []


def test_leaves_may_have_gradients() -> None:
    state = {"state": STATES[0]}
    blocks = Blocks([{"address": 0x1000, "blocks": [{"size": 512, **state} for _ in range(3)]}])
    tensors = [Tensor(0x1000 + 512 * at, 8, is_leaf=at == 1) for at in range(3)]
    tensors[2].retains_grad = True
    found = Tensors(Referrers(), blocks)
    assert found.look(tensors, {Tensor}, address, 0, time.monotonic() + 60)
    assert found.with_gradients() == [1, 2]
