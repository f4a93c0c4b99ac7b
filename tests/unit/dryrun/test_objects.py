"""Ranks exchange objects through a store; here ranks are threads, without torch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from memreplay.programs.inside import memreplay_objects

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = 3
me = threading.local()


class Store:
    """A fake torch.distributed.Store: `get` waits until the key is set."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        with self.changed:
            assert key not in self.values
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key: str) -> bytes:
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.values, 10)
            return self.values[key]


class Torch:
    uint8, long = "uint8", "long"

    def __init__(self) -> None:
        self.made: list[tuple[int, str, str]] = []

    def empty(self, n: int, *, dtype: str, device: str) -> object:
        self.made.append((n, dtype, device))
        return object()


@pytest.fixture
def torch() -> Torch:
    return Torch()


def on_all(torch: Torch, call: Callable[[ModuleType, int], Any], device: str = "cuda") -> list[Any]:
    """Return the result of a call on each rank; `theirs` is PyTorch's own function."""
    store, default = Store(), SimpleNamespace(group_name="0")

    def rank(i: int) -> Any:
        me.rank = i
        c10d = ModuleType("distributed_c10d")
        c10d._get_object_coll_device = lambda group: device  # type: ignore[attr-defined]
        c10d._get_process_group_store = lambda group: store  # type: ignore[attr-defined]
        c10d._get_default_group = lambda: default  # type: ignore[attr-defined]
        c10d.get_rank = lambda group: me.rank  # type: ignore[attr-defined]
        c10d.get_world_size = lambda group: RANKS  # type: ignore[attr-defined]
        c10d.get_group_rank = lambda group, rank: rank - 10  # type: ignore[attr-defined]
        for name in memreplay_objects.GROUP_AT:
            setattr(c10d, name, lambda *args, **kwargs: "theirs")
        distributed = ModuleType("distributed")
        memreplay_objects.install(torch, c10d, distributed)
        return call(distributed, i)

    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(rank, range(RANKS)))


def test_all_gather_object_gives_each_rank_all_objects(torch: Torch) -> None:
    def call(distributed: Any, rank: int) -> Any:
        found: list[list[Any]] = []
        for i in range(2):
            found.append([None] * RANKS)
            distributed.all_gather_object(found[-1], (i, "x" * 100 * rank))
        return found

    want = [[(i, "x" * 100 * rank) for rank in range(RANKS)] for i in range(2)]
    assert on_all(torch, call) == [want] * RANKS
    assert {device for *_, device in torch.made} == {"cuda"}  # PyTorch would have created them


def test_gather_object_gives_one_rank_all_objects(torch: Torch) -> None:
    def call(distributed: Any, rank: int) -> Any:
        found = [None] * RANKS if rank == 2 else None
        distributed.gather_object(rank * 2, found, dst=2)
        return found

    assert on_all(torch, call) == [None, None, [0, 2, 4]]


def test_broadcast_object_gives_each_rank_the_same_objects(torch: Torch) -> None:
    def call(distributed: Any, rank: int) -> Any:
        found = ["seed", {"a": 1}] if rank == 1 else [None, None]
        distributed.broadcast_object_list(found, 1)
        return found

    assert on_all(torch, call) == [["seed", {"a": 1}]] * RANKS


def test_scatter_object_gives_each_rank_its_object(torch: Torch) -> None:
    group = SimpleNamespace(group_name="of some")

    def call(distributed: Any, rank: int) -> Any:
        found = [None]
        given = ["a", "b", "c"] if rank == 0 else None
        distributed.scatter_object_list(found, given, 10, group)  # its global rank
        distributed.scatter_object_list(found, given, group=group, group_src=0)
        return found

    assert on_all(torch, call) == [["a"], ["b"], ["c"]]


def test_cpu_groups_keep_pytorchs_functions(torch: Torch) -> None:
    found = on_all(torch, lambda distributed, _: distributed.all_gather_object([], 1), "cpu")
    assert found == ["theirs"] * RANKS
    assert not torch.made
