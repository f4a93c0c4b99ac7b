"""Exchange torch.distributed's objects through the process group's store.

PyTorch pickles objects into tensors on the GPU and computes their sizes in kernels, which do
nothing in a dry run. Instead, the pickles go through the store that the ranks used to find each
other. The store doesn't change them. The tensors are still allocated, but stay empty.
"""

from __future__ import annotations

import pickle

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class Objects:
    """torch.distributed's object collectives, for groups with tensors on a card."""

    def __init__(self, torch: Any, c10d: Any, world: Any = None) -> None:
        """`world`: which ranks run (memreplay_world.py); None if all do."""
        self.torch, self.c10d, self.world = torch, c10d, world
        self.sent: dict[tuple[str, str], int] = {}  # number of calls by group name and kind

    def by_the_card(self, group: Any) -> bool:
        c10d = self.c10d
        # before PyTorch 2.6, it had another name
        device_of = getattr(c10d, "_get_object_coll_device", None) or c10d._get_pg_default_device
        where = device_of(group)
        return getattr(where, "type", str(where)).startswith("cuda")

    def is_ours(self, group: Any) -> bool:
        world = self.world
        partial = world is not None and not world.all_run(world.members(group))
        return partial or self.by_the_card(group)

    def does_run(self, group: Any, rank: int) -> bool:
        """Return whether a rank runs, given its number in the group."""
        world = self.world
        return world is None or world.runs(world.members(group)[rank])

    def store(self, group: Any) -> Any:
        return self.c10d._get_process_group_store(group or self.c10d._get_default_group())

    def key(self, group: Any, kind: str) -> str:
        """Return a key for a call. All ranks make their calls in the same order, so they get the
        same key.
        """
        name = str(getattr(group or self.c10d._get_default_group(), "group_name", ""))
        number = self.sent[name, kind] = self.sent.get((name, kind), -1) + 1
        return f"memreplay/{name}/{kind}/{number}"

    def tensors(self, n_bytes: int) -> tuple[Any, Any]:
        """Return the tensors that PyTorch allocates for an object, one for its bytes and one for
        its size.
        """
        torch = self.torch
        return (
            torch.empty(n_bytes, dtype=torch.uint8, device="cuda"),
            torch.empty(1, dtype=torch.long, device="cuda"),
        )

    def exchanged(self, group: Any, obj: Any) -> list[bytes]:
        """Return each rank's pickle, in rank order."""
        c10d, store, key = self.c10d, self.store(group), self.key(group, "all")
        mine = pickle.dumps(obj)
        store.set(f"{key}/{c10d.get_rank(group)}", mine)
        run = [self.does_run(group, rank) for rank in range(c10d.get_world_size(group))]
        found = [store.get(f"{key}/{rank}") if runs else mine for rank, runs in enumerate(run)]
        if not all(run):
            self.world.assume("all_gather_object")
        if self.by_the_card(group):
            held = self.tensors(len(mine)), self.tensors(max(map(len, found)) * len(found))
            del held
        return found

    def from_one(self, group: Any, obj: Any, source: int) -> Any:
        """Return one rank's object."""
        store, key = self.store(group), self.key(group, "one")
        runs = self.does_run(group, source)
        if not runs:
            self.world.assume("broadcast_object_list")
        if self.c10d.get_rank(group) == source or not runs:
            found = pickle.dumps(obj)
            if runs:
                store.set(key, found)
        else:
            found = store.get(key)
        if self.by_the_card(group):
            held = self.tensors(len(found))
            del held
        return pickle.loads(found)

    def check(self, group: Any, rank: int, what: str) -> None:
        """Raise an error if this rank in the group doesn't run."""
        if not self.does_run(group, rank):
            raise self.world.absent(self.world.members(group)[rank], what)

    def rank_of(self, group: Any, rank: int | None, in_group: int | None) -> int:
        """Return a rank's number in the group, given its group rank or global rank."""
        if in_group is not None:
            return in_group
        return int(self.c10d.get_group_rank(group, rank or 0)) if group else rank or 0

    # --- named like torch.distributed's functions
    # -----------------------------------------------------

    def all_gather_object(
        self, object_list: list[Any], obj: Any, group: Any = None, *_: Any, **__: Any
    ) -> None:
        for i, one in enumerate(self.exchanged(group, obj)):
            object_list[i] = pickle.loads(one)

    def gather_object(
        self,
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,
        **more: Any,
    ) -> None:
        found = self.exchanged(group, obj)
        if self.c10d.get_rank(group) == self.rank_of(group, dst, more.get("group_dst")):
            for i, one in enumerate(found):
                object_gather_list[i] = pickle.loads(one)  # type: ignore[index]

    def broadcast_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        *_: Any,
        **more: Any,
    ) -> None:
        source = self.rank_of(group, src, more.get("group_src"))
        found = self.from_one(group, list(object_list), source)
        if self.c10d.get_rank(group) != source:
            object_list[:] = found

    def scatter_object_list(
        self,
        scatter_object_output_list: list[Any],
        scatter_object_input_list: Any = None,
        src: int | None = None,
        group: Any = None,
        **more: Any,
    ) -> None:
        source = self.rank_of(group, src, more.get("group_src"))
        self.check(group, source, "gets an object from")
        found = self.from_one(group, scatter_object_input_list, source)
        scatter_object_output_list[0] = found[self.c10d.get_rank(group)]

    # --- between two ranks
    # -----------------------------------------------------

    def message(self, group: Any, source: int, to: int) -> str:
        """Return a message's key. It's the same in all groups of this size, which are other copies
        of a pipeline.
        """
        size = self.c10d.get_world_size(group)
        name = str(getattr(group or self.c10d._get_default_group(), "group_name", ""))
        place = f"sent/{size}/{source}/{to}"
        number = self.sent[name, place] = self.sent.get((name, place), -1) + 1
        return f"memreplay/{place}/{number}"

    def sender(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        """Send objects also to copies of the receiver, whose own sender doesn't run."""

        def send_object_list(
            object_list: list[Any], dst: int | None = None, group: Any = None, *args: Any, **kw: Any
        ) -> Any:
            to = self.rank_of(group, dst, kw.get("group_dst"))
            key = self.message(group, self.c10d.get_rank(group), to)
            self.store(None).set(key, pickle.dumps(object_list))
            return theirs(object_list, dst, group, *args, **kw)

        return send_object_list

    def receiver(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        """Receive objects from a copy of the sender if that one doesn't run."""

        def recv_object_list(
            object_list: list[Any], src: int | None = None, group: Any = None, *args: Any, **kw: Any
        ) -> Any:
            source = self.rank_of(group, src, kw.get("group_src"))
            key = self.message(group, source, self.c10d.get_rank(group))
            if self.does_run(group, source):
                return theirs(object_list, src, group, *args, **kw)
            members = self.world.members(group)
            if not self.world.has_copy(members, source):
                raise self.world.absent(members[source], "receives an object from")
            self.world.assume("recv_object_list")
            found = pickle.loads(self.store(None).get(key))
            if self.by_the_card(group):
                sizes = [len(pickle.dumps(one)) for one in found]
                self.receive_nothing(group, members[source], sizes, kw.get("use_batch"))
            object_list[:] = found
            return members[source]

        return recv_object_list

    def receive_nothing(self, group: Any, source: int, sizes: list[int], batched: Any) -> None:
        """Call NCCL and the allocator as for objects with these sizes."""
        torch, c10d = self.torch, self.c10d
        numbers = torch.empty(len(sizes), dtype=torch.long, device="cuda")

        def receive(tensor: Any) -> None:
            if batched:
                received = c10d.P2POp(c10d.irecv, tensor, source, group)
                c10d.batch_isend_irecv([received]).pop().wait()
            else:
                c10d.recv(tensor, source, group)

        receive(numbers)
        torch.sum(numbers)
        content = torch.empty(sum(sizes), dtype=torch.uint8, device="cuda")
        receive(content)
        offset: Any = 0
        # PyTorch computes where each object ends, then where the next one begins.
        for size in numbers:
            end = offset + size
            del end
            offset = offset + size
            del size
        del offset
        del numbers


# Position of the group argument in each function.
GROUP_AT = {
    "all_gather_object": 2,
    "gather_object": 3,
    "broadcast_object_list": 2,
    "scatter_object_list": 3,
}


def install(torch: Any, c10d: ModuleType, *modules: ModuleType, world: Any = None) -> None:
    """Replace the functions in these modules. Groups on CPUs keep using PyTorch's functions unless
    some of their ranks don't run. `world`: which ranks do; None if all.
    """
    ours = Objects(torch, c10d, world)

    def either(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
        def one_of_them(*args: Any, **kwargs: Any) -> Any:
            at = GROUP_AT[name]
            group = kwargs.get("group", args[at] if len(args) > at else None)
            member = ours.c10d.get_rank(group) >= 0
            if member and ours.is_ours(group):
                return getattr(ours, name)(*args, **kwargs)
            return theirs(*args, **kwargs)

        return one_of_them

    for name in GROUP_AT:
        theirs = getattr(c10d, name, None)
        if theirs is not None:
            for module in (c10d, *modules):
                setattr(module, name, either(name, theirs))
    if world is not None:
        for name, made in (("send_object_list", ours.sender), ("recv_object_list", ours.receiver)):
            theirs = getattr(c10d, name, None)
            if theirs is not None:
                for module in (c10d, *modules):
                    setattr(module, name, made(theirs))
