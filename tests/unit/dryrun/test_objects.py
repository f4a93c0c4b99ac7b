"""Ranks exchange objects through a store; here ranks are threads, without torch."""

from __future__ import annotations

import pickle
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
        self.received: list[tuple[list[int], int]] = []

    def sum(self, tensor: list[int]) -> None:
        pass

    def empty(self, n: int, *, dtype: str, device: str) -> list[int]:
        self.made.append((n, dtype, device))
        return [0] * n


@pytest.fixture
def torch() -> Torch:
    return Torch()


class World:
    """Ranks of which only some run (memreplay_world.py)."""

    def __init__(self, *ranks: int) -> None:
        self.ranks, self.assumed = ranks, set[str]()

    def runs(self, rank: int) -> bool:
        return rank in self.ranks

    def all_run(self, ranks: list[int]) -> bool:
        return all(map(self.runs, ranks))

    def members(self, _: Any) -> list[int]:
        return list(range(RANKS))

    def assume(self, operator: str) -> None:
        self.assumed.add(operator)

    def has_copy(self, members: list[int], position: int) -> bool:
        return members == [0, 1, 2] and position == 2

    def absent(self, rank: int, what: str) -> Exception:
        return RuntimeError(f"{what} rank {rank}")


def on_all(
    torch: Torch,
    call: Callable[[ModuleType, int], Any],
    device: str = "cuda",
    world: World | None = None,
) -> list[Any]:
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
        for one in ("send_object_list", "recv_object_list"):
            setattr(c10d, one, lambda *args, **kwargs: "theirs")
        c10d.recv = lambda tensor, source, group: torch.received.append(  # type: ignore[attr-defined]
            (tensor, source)
        )
        memreplay_objects.install(torch, c10d, distributed, world=world)
        return call(distributed, i)

    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(rank, world.ranks if world is not None else range(RANKS)))


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


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_absent_ranks_send_this_ranks_objects(torch: Torch, device: str) -> None:
    world = World(0, 2)

    def call(distributed: Any, rank: int) -> Any:
        every: list[Any] = [None] * RANKS
        distributed.all_gather_object(every, rank)
        one, other = [f"of {rank}"], [f"of {rank}"]
        distributed.broadcast_object_list(one, 0)
        distributed.broadcast_object_list(other, 1)
        return every, one, other

    assert on_all(torch, call, device, world) == [
        ([0, 0, 2], ["of 0"], ["of 0"]),
        ([0, 2, 2], ["of 0"], ["of 2"]),
    ]
    assert world.assumed == {"all_gather_object", "broadcast_object_list"}
    assert bool(torch.made) == (device == "cuda")  # nothing is allocated for CPUs


def test_objects_that_only_an_absent_rank_has_are_refused(torch: Torch) -> None:
    def call(distributed: Any, rank: int) -> Any:
        with pytest.raises(RuntimeError, match="gets an object from rank 1"):
            distributed.scatter_object_list([None], None, 1)
        with pytest.raises(RuntimeError, match="receives an object from rank 1"):
            distributed.recv_object_list([None], 1)
        return distributed.recv_object_list([None], 0)

    assert on_all(torch, call, world=World(0, 2)) == ["theirs"] * 2


def test_older_names_are_known() -> None:
    """Before PyTorch 2.6, the device of a group's objects had another name."""
    c10d = SimpleNamespace(_get_pg_default_device=lambda group: SimpleNamespace(type="cuda"))
    assert memreplay_objects.Objects(None, c10d).by_the_card(None)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_stage_receives_what_a_copy_of_its_neighbor_sends(torch: Torch, device: str) -> None:
    """Ranks 0 and 1 run. Rank 0 stands for rank 2 of another pipeline when it sends."""

    def call(distributed: Any, rank: int) -> Any:
        if rank == 0:
            me.rank = 2
            return [distributed.send_object_list([i, "x" * i], 1) for i in range(2)]
        found: list[Any] = []
        for _ in range(2):
            found.append([None, None])
            assert distributed.recv_object_list(found[-1], 2) == 2
        return found

    world = World(0, 1)
    assert on_all(torch, call, device, world) == [["theirs"] * 2, [[0, ""], [1, "x"]]]
    assert world.assumed == {"recv_object_list"}
    sizes = (
        [len(pickle.dumps(one)) for one in (0, "")],
        [len(pickle.dumps(one)) for one in (1, "x")],
    )
    want = [([0] * n, 2) for one in sizes for n in (2, sum(one))]
    assert torch.received == (want if device == "cuda" else [])
