"""Find out who holds private pools, and pinned memory of the host."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from memreplay.recording.tensors import of_type
from memreplay.recording.ways import UNKNOWN, Key, named_holder

# Classes whose objects have a private pool, and how to get its number.
POOLS = {"_CUDAGraph": "pool", "_MemPool": "id"}
LEAST_PINNED = 1 << 16  # bytes; smaller pinned tensors are left out
MOST = 20  # maximum number of holders of pinned memory

Pool = tuple[int, int]


class Never:
    """A class without objects, for those that this PyTorch doesn't have."""


def kinds_of(torch: Any) -> list[type]:
    """Return the classes whose objects have a private pool."""
    return [getattr(torch._C, name, Never) for name in POOLS]


def pool_of(kind: type, thing: Any, attribute: str) -> Pool | None:
    """Return the number of a graph's or pool's private pool; None if it has none yet."""
    try:
        found = of_type(kind, "__dict__")[attribute].__get__(thing)
        return tuple(found() if callable(found) else found)
    except (KeyError, RuntimeError, TypeError):
        return None


def of_pools(unused: Mapping[Pool, int], held: Mapping[int, Pool], keys: Mapping[int, Key]) -> Any:
    """Return who holds the private pools whose memory isn't in use, largest first.

    `unused`: each pool's bytes. `held`: the pools of objects. `keys`: who holds these.
    """
    holders: dict[Any, Key] = {}
    for at, pool in held.items():
        if pool not in holders or holders[pool].kind == "unknown":
            holders[pool] = keys[at]
    return [
        {**named_holder(holders.get(pool, UNKNOWN)), "bytes": size, "pool": list(pool)}
        for pool, size in sorted(unused.items(), key=lambda one: -one[1])
    ]


def pinned_memory(torch: Any, tensor: Any) -> tuple[int, int] | None:
    """Return the address and bytes of a tensor in pinned memory of the host; None for others."""
    if tensor.device.type != "cpu":
        return None
    try:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        with getattr(torch._C, "_DisableTorchDispatch", contextlib.nullcontext)():
            pinned = torch._C.TensorBase.is_pinned(tensor)
        return (storage.data_ptr(), size) if pinned else None
    except (AttributeError, RuntimeError, NotImplementedError):
        return None


def of_pinned(pinned: Mapping[int, tuple[int, int]], keys: Mapping[int, Key]) -> Any:
    """Return who holds pinned memory of the host, largest first.

    `pinned`: each tensor's memory. `keys`: who holds these tensors.
    """
    left = dict(pinned.values())
    found: dict[Key, list[int]] = defaultdict(list)
    for at in sorted(pinned, key=lambda at: keys[at].kind == "unknown"):
        size = left.pop(pinned[at][0], None)
        if size is not None:
            found[keys[at]].append(size)
    largest = sorted(found.items(), key=lambda one: (-sum(one[1]), one[0]))
    return [
        {**named_holder(key), "bytes": sum(sizes), "count": len(sizes)}
        for key, sizes in largest[:MOST]
    ]
