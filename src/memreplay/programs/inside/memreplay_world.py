"""Let some ranks of a distributed program run without the others.

MEMREPLAY_DRYRUN_RANKS names the ranks that run and the number of all ranks: `0,37/512`. Groups of
cards are PyTorch's own over the fake NCCL, which assumes that a rank that doesn't run sends what
this one sends. Groups of CPUs are PyTorch's fake ones if some of their ranks don't run. Ranks that
run exchange messages as usual.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

ID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES
ASSUMED = 4  # OF_ASSUMED in gpu/gpu.h
CPU = "memreplay_cpu"  # the backend for groups of CPUs
# Seconds to wait for a key that a rank that runs may still set, or another thread of this one.
LONGEST_WAIT, LONGEST_WAIT_ALONE = 120.0, 5.0
# The key of a communicator's ID: the group's name, the device, and the communicator. Larger
# groups may come first.
OF_GROUP = re.compile(r"(?:.*//|default_pg/)?(.+?)//\w+//(?:[^/]*/)*([^/]+)")
COLLECTIVES = (
    *("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather"),
    *("scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
    "recv",
)
PAIR = re.compile(r"(\d+):(\d+)")


class World:
    """All ranks of the program, of which only some run."""

    def __init__(self, ranks: str, card: Any) -> None:
        """`ranks`: as in MEMREPLAY_DRYRUN_RANKS. `card`: the library with the fake card."""
        these, _, size = ranks.partition("/")
        self.size = int(size)
        self.ranks = [int(rank) for rank in these.split(",")]
        self.rank = int(os.environ.get("RANK", self.ranks[0]))
        self.node = int(os.environ.get("GROUP_RANK", "0"))
        self.card = card
        self.groups: dict[str, list[int]] = {}  # global ranks by name
        self.splits: list[list[int]] = []  # groups that were split from others

    def runs(self, rank: int) -> bool:
        return rank in self.ranks

    def all_run(self, ranks: Sequence[int]) -> bool:
        return all(map(self.runs, ranks))

    def members(self, group: Any) -> list[int]:
        """Return a group's global ranks; None is the group of all ranks."""
        name = getattr(group, "group_name", None)
        return self.groups.get(str(name)) or list(range(self.size))

    def own_groups(self) -> list[list[int]]:
        """Return the groups that this rank is in."""
        return [ranks for ranks in self.groups.values() if self.rank in ranks]

    def has_copy(self, members: list[int], position: int) -> bool:
        """Return whether a rank runs that has this position in another group of this size."""
        others = [*self.groups.values(), *self.splits]
        same = [one for one in others if len(one) == len(members) and one != members]
        return any(self.runs(one[position]) for one in same)

    def with_rank(self, rank: int) -> str:
        """Return the value for `--rank` that includes another rank."""
        return ",".join(map(str, sorted({*self.ranks, rank})))

    def absent(self, rank: int, what: str) -> Exception:
        """Return the error that a rank needs another one, which doesn't run."""
        return RuntimeError(
            f"memreplay: rank {self.rank} {what} rank {rank}, which doesn't run; run both:"
            f" --rank {self.with_rank(rank)}"
        )

    def assume(self, operator: str) -> None:
        """Note that the program got what a rank that doesn't run is assumed to send."""
        self.card.memreplay_note_place(operator.encode(), ASSUMED)

    # --- what the fake NCCL has to know
    # -----------------------------------------------------

    def announce(self, made: bytes | None, name: str, ranks: Sequence[int]) -> None:
        """Say which ranks of a communicator run. `made`: its ID; None for the group that's being
        made.
        """
        run = bytes(map(self.runs, ranks))
        self.card.memreplay_members(
            made, name.encode(), len(ranks), list(ranks).index(self.rank), run
        )

    def forget_next(self) -> None:
        self.card.memreplay_members(None, b"", 0, 0, None)

    def communicator(self, key: str) -> list[int] | None:
        """Return the ranks of the communicator whose ID has this key; None if it isn't the key of
        an ID, or if all its group's ranks run, so that they exchange the ID as usual.
        """
        found = OF_GROUP.fullmatch(key)
        ranks = self.groups.get(found[1]) if found else None
        if not found or not ranks or self.all_run(ranks) or self.rank not in ranks:
            return None
        pair = PAIR.fullmatch(found[2])
        return [ranks[int(pair[1])], ranks[int(pair[2])]] if pair else ranks


def store_of(world: World, dist: Any, real: Any, prefix: str) -> Any:
    """Return a store that answers for ranks that don't run."""

    class Answering(dist.Store):  # type: ignore[misc]
        """A store among the ranks that run."""

        def named(self, key: str) -> tuple[str, bytes]:
            """Return a communicator's name and its ID, which are the same on all ranks."""
            name = hashlib.md5(f"{prefix}{key}".encode(), usedforsecurity=False).hexdigest()
            return name, name.encode().ljust(ID_BYTES, b"\0")

        def set(self, key: str, value: bytes | str) -> None:
            ranks = world.communicator(key)
            if ranks is not None and isinstance(value, bytes) and len(value) == ID_BYTES:
                # This rank made the ID. The others find the communicator by its name.
                world.announce(value, self.named(key)[0], ranks)
            else:
                real.set(prefix + key, value)

        def get(self, key: str) -> bytes:
            ranks = world.communicator(key)
            if ranks is not None:
                name, made = self.named(key)
                world.announce(made, name, ranks)
                return made
            self.wait([key])
            found: bytes = real.get(prefix + key)
            return found

        def wait(self, keys: list[str], *_: Any) -> None:
            mine = [key for key in keys if world.communicator(key) is None]
            alone = len(world.ranks) == 1
            until = time.monotonic() + (LONGEST_WAIT_ALONE if alone else LONGEST_WAIT)
            while not self.check(mine):
                if time.monotonic() > until:
                    raise RuntimeError(
                        f"memreplay: rank {world.rank} waits for the key {mine[0]!r} in the store,"
                        " which a rank that doesn't run may have to set; name that rank, too"
                        " (--rank)"
                    )
                time.sleep(0.01)

        def check(self, keys: list[str]) -> bool:
            return all(world.communicator(key) or real.check([prefix + key]) for key in keys)

        def add(self, key: str, n: int) -> int:
            """Add to a number, as all ranks are assumed to do."""
            return int(real.add(prefix + key, n)) * world.size // len(world.ranks)

        def compare_set(self, key: str, expected: str, desired: str) -> bytes:
            found: bytes = real.compare_set(prefix + key, expected, desired)
            return found

        def delete_key(self, key: str) -> bool:
            return bool(real.delete_key(prefix + key))

        def num_keys(self) -> int:
            return int(real.num_keys())

        def append(self, key: str, value: str) -> None:
            there = real.get(prefix + key) if real.check([prefix + key]) else b""
            real.set(prefix + key, there + value.encode())

        def has_extended_api(self) -> bool:
            return False

        def clone(self) -> Any:
            return self

        def set_timeout(self, *_: Any) -> None:
            """Ignore it: our limit is shorter."""

    return Answering()


class Installed:
    """torch.distributed with functions that answer for ranks that don't run."""

    def __init__(self, world: World, torch: Any, c10d: Any, folder: str) -> None:
        """`folder`: where the ranks that run meet."""
        self.world, self.torch, self.c10d, self.folder = world, torch, c10d, folder
        self.stores: list[Any] = []  # they are used from C++, so they have to stay
        self.sum = c10d.ReduceOp.SUM

    def store(self, *_: Any, **__: Any) -> Any:
        """Return a new store, in the place of one that all ranks use."""
        dist, world = self.torch.distributed, self.world
        if len(world.ranks) == 1:
            real = dist.HashStore()
        else:
            real = dist.FileStore(os.path.join(self.folder, "ranks"), -1)
        found = store_of(world, dist, real, f"{len(self.stores)}/")
        self.stores += [real, found]
        return found

    def tcp_store(self, theirs: Any) -> Any:
        """A program may also make its store itself."""
        installed = self

        class TCPStore(theirs):  # type: ignore[misc]
            def __new__(cls, *_: Any, **__: Any) -> Any:
                return installed.store()

        return TCPStore

    def file_rendezvous(self, url: str, **_: Any) -> Any:
        found = {key: int(n) for key, n in re.findall(r"[?&](rank|world_size)=(\d+)", url)}
        yield self.store(), found["rank"], found["world_size"]

    def backend(self, asked: Any) -> Any:
        """Return the backend with ours for CPUs, whose own one connects to each rank."""
        backend = self.c10d.Backend
        if str(asked) == backend.UNDEFINED:
            return backend(f"cpu:{CPU},cuda:nccl")
        return backend(re.sub(r"\bgloo\b", CPU, str(asked)))

    def cpu_group(self, options: Any, _: Any) -> Any:
        fake = self.torch._C._distributed_c10d.FakeProcessGroup
        made = getattr(fake, "_create_internal", fake)
        return made(options.group_rank, options.group_size)

    def new_group(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        world, c10d = self.world, self.c10d

        def made(size: int, rank: int, ranks: list[int], asked: Any, *args: Any, **kw: Any) -> Any:
            name = kw["group_name"] if "group_name" in kw else args[1]
            members = world.groups[str(name)] = list(ranks) or list(range(size))
            backend = asked
            if world.rank in members:
                world.announce(None, "", members)
                if not world.all_run(members):
                    backend = self.backend(asked)
            try:
                group, store = theirs(size, rank, ranks, backend, *args, **kw)
            finally:
                world.forget_next()
            if backend is not asked and group in c10d._world.pg_map:
                c10d._world.pg_map[group] = (asked, store)
            return group, store

        return made

    def split_group(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        world = self.world

        def made(parent_pg: Any = None, split_ranks: Any = None, *args: Any, **kw: Any) -> Any:
            of = world.members(parent_pg)
            every = [[of[i] for i in one] for one in split_ranks or ()]
            world.splits += every
            ranks = [one for one in every if world.rank in one]
            if ranks:
                world.announce(None, "", ranks[0])
            try:
                group = theirs(parent_pg, split_ranks, *args, **kw)
            finally:
                world.forget_next()
            if ranks and getattr(group, "group_name", None):
                world.groups[str(group.group_name)] = ranks[0]
            return group

        return made

    def on_cpus(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        """Note a collective on CPUs, and compute what PyTorch's fake group doesn't."""
        import inspect

        world, torch = self.world, self.torch
        name, signature = theirs.__name__, inspect.signature(theirs)

        def noted(*args: Any, **kw: Any) -> Any:
            given = signature.bind(*args, **kw).arguments
            tensor = next(iter(given.values()))
            while isinstance(tensor, (list, tuple)) and tensor:
                tensor = tensor[0]
            done = theirs(*args, **kw)
            members = world.members(given.get("group"))
            on_cpu = isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu"
            if on_cpu and world.rank in members and not world.all_run(members):
                world.assume(name)
                me = members.index(world.rank)
                if name == "all_reduce" and given.get("op", self.sum) == self.sum:
                    tensor.mul_(len(members))
                elif name == "all_to_all_single":
                    exchange(given, len(members), me)
            return done

        return noted

    def unless_absent(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        """Skip a barrier if some of the group's ranks don't run."""

        def barrier(group: Any = None, *args: Any, **kw: Any) -> Any:
            if self.world.all_run(self.world.members(group)):
                return theirs(group, *args, **kw)
            return None

        return barrier

    def install(self) -> None:
        c10d = self.c10d
        meeting: Any = sys.modules["torch.distributed.rendezvous"]
        meeting._create_c10d_store = self.store
        meeting._rendezvous_handlers["file"] = self.file_rendezvous
        c10d.Backend.register_backend(
            CPU, self.cpu_group, extended_api=True, devices=["cpu", "cuda"]
        )
        c10d._store_based_barrier = lambda *_, **__: None
        for name, ours in (
            ("_new_process_group_helper", self.new_group),
            ("split_group", self.split_group),
            ("monitored_barrier", self.unless_absent),
            ("TCPStore", self.tcp_store),
            *((name, self.on_cpus) for name in COLLECTIVES),
        ):
            theirs = getattr(c10d, name, None) or getattr(self.torch.distributed, name, None)
            if theirs is not None:
                replace(name, theirs, ours(theirs))


def exchange(given: dict[str, Any], n: int, me: int) -> None:
    """Fill an all-to-all exchange's output: each rank sends what this one sends to itself."""
    output, sent = given["output"], given["input"]
    own = sent.split(given.get("input_split_sizes") or len(sent) // n)[me]
    for part in output.split(given.get("output_split_sizes") or len(output) // n):
        if part.shape == own.shape:
            part.copy_(own)


def replace(name: str, theirs: Any, ours: Any) -> None:
    """Replace a function in all of torch.distributed's modules that have imported it."""
    for path, module in list(sys.modules.items()):
        if path.startswith("torch.distributed") and vars(module).get(name) is theirs:
            setattr(module, name, ours)


def install(told: dict[str, str], torch: Any, c10d: Any) -> World | None:
    """Prepare torch.distributed if only some ranks run. Returns None if all run."""
    ranks, card = told.get("MEMREPLAY_DRYRUN_RANKS"), told.get("MEMREPLAY_DRYRUN_CARD")
    if not ranks or not card:
        return None
    import ctypes

    library = ctypes.CDLL(card)
    text, n = ctypes.c_char_p, ctypes.c_int
    library.memreplay_members.argtypes = (text, text, n, n, text)
    library.memreplay_note_place.argtypes = (text, n)
    world = World(ranks, library)
    Installed(world, torch, c10d, told.get("MEMREPLAY_GPU_MESSAGES", "/tmp")).install()
    return world
