"""Tests of inside/memreplay_world.py: a store that answers for ranks that don't run, and groups of
which some ranks run. torch is a stand-in.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memreplay.programs.inside import memreplay_world
from memreplay.programs.inside.memreplay_world import ASSUMED, ID_BYTES, Installed, World


class Store:
    """A fake torch.distributed.HashStore."""

    def __init__(self, *_: Any) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: bytes | str) -> None:
        self.values[key] = value.encode() if isinstance(value, str) else value

    def get(self, key: str) -> bytes:
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def add(self, key: str, n: int) -> int:
        value = int(self.values.get(key, b"0")) + n
        self.values[key] = str(value).encode()
        return value

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        assert expected == ""
        return self.values.setdefault(key, desired.encode())

    def delete_key(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self.values)


class Card:
    def __init__(self) -> None:
        self.members: list[tuple[Any, ...]] = []
        self.places: list[tuple[bytes, int]] = []

    def memreplay_members(self, *told: Any) -> None:
        self.members.append(told)

    def memreplay_note_place(self, operator: bytes, kind: int) -> None:
        self.places.append((operator, kind))


class Backend(str):
    UNDEFINED = "undefined"
    made: dict[str, Any] = {}  # noqa: RUF012

    @classmethod
    def register_backend(cls, name: str, make: Any, **_: Any) -> None:
        cls.made[name] = make


class Tensor:
    """A tensor of one dimension on a CPU or a card."""

    def __init__(self, *values: int, device: str = "cpu") -> None:
        self.values, self.device = list(values), SimpleNamespace(type=device)

    def mul_(self, by: int) -> None:
        self.values = [by * one for one in self.values]


class Part:
    """A part of a tensor, as in `split`."""

    def __init__(self, of: list[int], at: int, n: int) -> None:
        self.of, self.at, self.shape = of, at, n

    def copy_(self, other: Part) -> None:
        self.of[self.at : self.at + self.shape] = other.of[other.at : other.at + other.shape]


class Whole(Tensor):
    def __len__(self) -> int:
        return len(self.values)

    def split(self, sizes: int | list[int]) -> list[Part]:
        if isinstance(sizes, int):
            sizes = [sizes] * (len(self) // sizes)
        return [Part(self.values, sum(sizes[:i]), n) for i, n in enumerate(sizes)]


@pytest.fixture
def card() -> Card:
    return Card()


@pytest.fixture
def world(card: Card, monkeypatch: pytest.MonkeyPatch) -> World:
    """Rank 5 of 8, of which 1 and 5 run."""
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setattr(memreplay_world, "LONGEST_WAIT", 0.05)
    made = World("1,5/8", card)
    made.groups |= {"0": list(range(8)), "pair": [1, 5], "half": [4, 5, 6, 7], "other": [0, 2]}
    return made


@pytest.fixture
def store(world: World) -> Any:
    return memreplay_world.store_of(world, SimpleNamespace(Store=object), Store(), "0/")


def test_ranks_of_a_communicator_follow_from_its_key(world: World) -> None:
    everyone = list(range(8))
    keys: dict[str, list[int] | None] = {
        "default_pg/0//cuda//0": everyone,
        "0//cuda//UniqueNCCLID:3": everyone,
        "0//cuda//0/nccl_storekey_0": everyone,
        "default_pg/0//half//cuda//1": [4, 5, 6, 7],
        "default_pg/0//half//cuda//1:2": [5, 6],
        "default_pg/0//pair//cuda//0": None,  # all its ranks run
        "default_pg/0//other//cuda//0": None,  # this rank isn't in it
        "default_pg/0//none//cuda//0": None,
        "anything": None,
    }
    assert {key: world.communicator(key) for key in keys} == keys


def test_identifiers_are_the_same_without_the_rank_that_makes_them(store: Any, card: Card) -> None:
    key = "default_pg/0//half//cuda//0"
    made = store.get(key)
    assert len(made) == ID_BYTES
    store.wait([key])
    assert store.check([key])
    own = bytes(range(ID_BYTES))
    store.set(key, own)
    assert store.get(key) == made
    name = made.rstrip(b"\0")
    assert card.members == [(one, name, 4, 1, bytes([0, 1, 0, 0])) for one in (made, own, made)]
    assert store.get("default_pg/0//half//cuda//1") != made


def test_other_keys_are_shared_among_the_ranks_that_run(store: Any) -> None:
    store.set("a", "x")
    store.append("a", "y")
    store.append("b", "z")
    assert (store.get("a"), store.get("b"), store.num_keys()) == (b"xy", b"z", 2)
    assert store.compare_set("c", "", "new") == b"new"
    assert (store.delete_key("a"), store.delete_key("a")) == (True, False)
    assert not store.check(["a", "b"])
    assert store.clone() is store
    assert not store.has_extended_api()
    store.set_timeout(5)


def test_counters_count_all_ranks(store: Any) -> None:
    assert store.add("barrier", 1) == 4
    assert store.add("barrier", 1) == 8


def test_waiting_for_an_absent_rank_ends_with_the_next_step(store: Any) -> None:
    with pytest.raises(RuntimeError) as failed:
        store.get("address")
    assert str(failed.value) == (
        "memreplay: rank 5 waits for the key 'address' in the store, which a rank that doesn't run"
        " may have to set; name that rank, too (--rank)"
    )


def test_absent_rank_is_named_with_the_option_to_add_it(world: World) -> None:
    assert str(world.absent(3, "receives an object from")) == (
        "memreplay: rank 5 receives an object from rank 3, which doesn't run; run both:"
        " --rank 1,3,5"
    )
    assert world.own_groups() == [list(range(8)), [1, 5], [4, 5, 6, 7]]


def test_copies_of_a_rank_are_in_groups_of_the_same_size(world: World) -> None:
    assert world.has_copy([0, 4], 0)  # rank 1 of [1, 5]
    assert not world.has_copy([1, 5], 0)  # a group isn't its own copy
    world.splits.append([0, 1, 2, 3])
    assert world.has_copy([4, 5, 6, 7], 1)
    assert not world.has_copy([4, 5, 6, 7], 2)


# --- torch.distributed ----------------------------------------------------------------------------


@pytest.fixture
def c10d(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch.distributed.distributed_c10d, changed for this world."""
    rendezvous: Any = ModuleType("torch.distributed.rendezvous")
    rendezvous._rendezvous_handlers = {}
    made: Any = ModuleType("torch.distributed.distributed_c10d")
    dist: Any = ModuleType("torch.distributed")
    made.Backend, made.calls = Backend, []
    made.ReduceOp = SimpleNamespace(SUM="sum", MAX="max")
    made._world = SimpleNamespace(pg_map={})

    def _new_process_group_helper(*args: Any, **kw: Any) -> Any:
        made.calls.append((args, kw, list(world.card.members)))
        made._world.pg_map["group"] = (args[3], "store")
        return "group", "store"

    def split_group(parent_pg: Any = None, split_ranks: Any = None) -> Any:
        made.calls.append(list(world.card.members))
        return SimpleNamespace(group_name="split")

    def all_reduce(tensor: Any, op: Any = "sum", group: Any = None) -> str:
        return "work"

    def all_to_all_single(
        output: Any,
        input: Any,  # noqa: A002
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        group: Any = None,
    ) -> None:
        pass

    def monitored_barrier(group: Any = None) -> str:
        return "waited"

    class TCPStore:
        pass

    theirs = (_new_process_group_helper, split_group, all_reduce, all_to_all_single)
    for one in (*theirs, monitored_barrier, TCPStore):
        setattr(made, one.__name__, one)
        setattr(dist, one.__name__, one)
    dist.Store, dist.HashStore, dist.FileStore = object, Store, Store
    fake = SimpleNamespace(FakeProcessGroup=lambda rank, size: ("fake", rank, size))
    torch = SimpleNamespace(
        distributed=dist, Tensor=Tensor, _C=SimpleNamespace(_distributed_c10d=fake)
    )
    for module in (rendezvous, made, dist):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    Installed(world, torch, made, "/nowhere").install()
    made.dist, made.rendezvous = dist, rendezvous
    return made


def test_group_with_absent_ranks_has_another_backend_for_cpus(c10d: Any, world: World) -> None:
    for ranks, asked, used in (
        ([], "cpu:gloo,cuda:nccl", "cpu:memreplay_cpu,cuda:nccl"),
        ([4, 5], "gloo", "memreplay_cpu"),
        ([4, 5], "undefined", "cpu:memreplay_cpu,cuda:nccl"),
        ([1, 5], "gloo", "gloo"),
        ([0, 2], "gloo", "gloo"),
    ):
        c10d.calls.clear()
        world.card.members.clear()
        group = c10d._new_process_group_helper(8, 5, ranks, Backend(asked), "store", "name")
        assert group == ("group", "store")
        ((args, _, told),) = c10d.calls
        assert args[3] == used
        assert c10d._world.pg_map["group"][0] == asked
        assert world.groups["name"] == (ranks or list(range(8)))
        members = ranks or list(range(8))
        run = bytes(rank in (1, 5) for rank in members)
        want = [(None, b"", len(members), members.index(5), run)] if 5 in members else []
        assert told == want
        assert world.card.members[-1] == (None, b"", 0, 0, None)
    options = SimpleNamespace(group_rank=1, group_size=4)
    assert Backend.made["memreplay_cpu"](options, None) == ("fake", 1, 4)


def test_split_group_tells_who_is_in(c10d: Any, world: World) -> None:
    c10d.dist.split_group(SimpleNamespace(group_name="half"), [[0, 1], [2, 3]])
    assert c10d.calls == [[(None, b"", 2, 1, bytes([0, 1]))]]
    assert world.groups["split"] == [4, 5]


def test_collectives_on_cpus_count_all_ranks(c10d: Any, card: Card) -> None:
    tensor = Tensor(3, 4)
    assert c10d.dist.all_reduce(tensor) == "work"
    assert (tensor.values, card.places) == ([24, 32], [(b"all_reduce", ASSUMED)])
    c10d.dist.all_reduce(tensor, "max")
    c10d.dist.all_reduce(tensor, group=SimpleNamespace(group_name="pair"))
    c10d.dist.all_reduce(Tensor(3, device="cuda"))
    assert tensor.values == [24, 32]
    assert len(card.places) == 2


def test_exchange_on_cpus_repeats_what_goes_to_this_rank(c10d: Any) -> None:
    half = SimpleNamespace(group_name="half")
    output = Whole(0, 0, 0, 0)
    c10d.dist.all_to_all_single(output, Whole(10, 11, 12, 13), group=half)
    assert output.values == [11, 11, 11, 11]
    output = Whole(0, 0, 0, 0, 0)
    c10d.dist.all_to_all_single(output, Whole(7, 8, 9), [2, 2, 1, 0], [1, 2, 0, 0], half)
    assert output.values == [8, 9, 8, 9, 0]


def test_barriers_are_for_groups_whose_ranks_all_run(c10d: Any) -> None:
    assert c10d.dist.monitored_barrier() is None
    assert c10d.dist.monitored_barrier(SimpleNamespace(group_name="pair")) == "waited"
    assert c10d._store_based_barrier(0, "store") is None


def test_each_store_is_ours_and_apart(c10d: Any) -> None:
    stores = [c10d.rendezvous._create_c10d_store("host", 1), c10d.dist.TCPStore("host", 2)]
    found = c10d.rendezvous._rendezvous_handlers["file"]("file:///x?rank=5&world_size=8")
    stores.append(next(found)[0])
    for i, one in enumerate(stores):
        one.set("key", str(i))
    assert [one.get("key") for one in stores] == [b"0", b"1", b"2"]


def test_nothing_changes_if_all_ranks_run() -> None:
    assert memreplay_world.install({}, None, None) is None
    told = {"MEMREPLAY_DRYRUN_CARD": "card"}
    assert memreplay_world.install(told, None, None) is None
