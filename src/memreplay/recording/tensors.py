"""Find tensors' memory, and tensors inside other objects."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from memreplay.recording.guarding import Guard, from_a_signal

DEEPEST = 8  # maximum nesting depth of containers in optimizers and callers' arguments
BUILT_IN = types.GetSetDescriptorType, types.MemberDescriptorType
# The names of the tensors that make up a sparse tensor, by layout.
COMPRESSED_ROWS = "crow_indices", "col_indices", "values"
COMPRESSED_COLUMNS = "ccol_indices", "row_indices", "values"
PARTS = {
    "torch.sparse_coo": ("_indices", "_values"),
    "torch.sparse_csr": COMPRESSED_ROWS,
    "torch.sparse_bsr": COMPRESSED_ROWS,
    "torch.sparse_csc": COMPRESSED_COLUMNS,
    "torch.sparse_bsc": COMPRESSED_COLUMNS,
}


class Addresses:
    """Finds the blocks of tensors on one type of device.

    Nothing here runs the program's code, because a tensor's `__torch_function__`, `__getattr__` or
    `__bool__` could do anything. Errors count as failures of `guard`, and the tensor then has no
    blocks.
    """

    without_memory: tuple[str, ...] = ("FakeTensor",)
    """Tensor types without memory. They warn when their address is read."""

    def __init__(self, torch: Any, kind: str, guard: Guard | None = None) -> None:
        self.torch, self.Tensor, self.kind = torch, torch.Tensor, kind
        self.guard = guard or Guard(torch)
        self.plain = (
            {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}
            if hasattr(torch.nn, "Buffer")
            else {torch.Tensor, torch.nn.Parameter}
        )

    def there(self) -> Iterator[int]:
        """Yield all blocks held by tensors."""
        devices = getattr(self.torch, self.kind)
        if not devices.is_initialized():
            return
        memory = devices.memory
        try:
            segments = memory.memory_snapshot(include_traces=False)
        except (AttributeError, TypeError):  # PyTorch before 2.10
            segments = memory._snapshot()["segments"]
        yield from sizes_of(segments)

    def all(self, tensor: Any) -> list[int]:
        """Return the storage addresses of a tensor or its parts; empty if they aren't on this
        device.
        """
        found = self.guard.run("finding a tensor's memory", self.found, tensor)
        return found or []

    def found(self, tensor: Any) -> list[int]:
        if type(tensor) in self.plain:
            return self.of(tensor)
        return [address for inner in self.inside(tensor) for address in self.of(inner)]

    def of(self, tensor: Any) -> list[int]:
        """Return the addresses of a tensor that isn't a wrapper, including sparse tensors."""
        if tensor.device.type != self.kind:
            return []
        try:
            address = int(tensor.untyped_storage().data_ptr())
        except (RuntimeError, NotImplementedError):
            return [address for part in self.parts(tensor) for address in self.of(part)]
        return [address] if address else []

    def parts(self, tensor: Any) -> list[Any]:
        """Return the values and indices of a sparse tensor."""
        names = PARTS.get(str(tensor.layout), ())
        if not names:
            return []
        # Otherwise, the program's dispatch modes would see operators that the program itself
        # doesn't run.
        with getattr(self.torch._C, "_DisableTorchDispatch", contextlib.nullcontext)():
            return [getattr(tensor, name)() for name in names]

    def inside(self, tensor: Any, deep: int = 0) -> Iterator[Any]:
        """Yield the plain tensors inside a DTensor or another wrapper tensor."""
        if type(tensor).__name__ in self.without_memory or deep > DEEPEST:
            return
        local = own(tensor, "_local_tensor")
        if local is not None:
            yield from self.inside(local, deep + 1)
        elif hasattr(type(tensor), "__tensor_flatten__"):
            for name in tensor.__tensor_flatten__()[0]:
                yield from self.inside(getattr(tensor, name), deep + 1)
        else:
            yield tensor
            if type(tensor) not in self.plain:  # a wrapper may hold other tensors as attributes
                for inner in (own(tensor, "__dict__") or {}).values():
                    if self.is_tensor(inner) and inner is not tensor:
                        yield from self.inside(inner, deep + 1)

    def is_tensor(self, thing: object) -> bool:
        """Like isinstance, but doesn't read the object's `__class__`."""
        return issubclass(type(thing), self.Tensor)

    def found_in(self, thing: object, deep: int = 0) -> Iterator[Any]:
        """Yield the tensors in dicts, lists and tuples."""
        kind = type(thing)
        if self.is_tensor(thing):
            yield thing
        elif deep < DEEPEST:
            # Use the built-in types' methods, because a subclass may override them.
            inner: Any = ()
            if issubclass(kind, dict):
                inner = list(dict.values(cast("dict[Any, Any]", thing)))
            elif issubclass(kind, list):
                inner = list.__iter__(cast("list[Any]", thing))
            elif issubclass(kind, tuple):
                inner = tuple.__iter__(cast("tuple[Any, ...]", thing))
            for one in inner:
                yield from self.found_in(one, deep + 1)


def sizes_of(segments: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return the bytes of each block in use by address, from PyTorch's segments."""
    found = {}
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                found[block.get("address", at)] = block.get("requested_size", block["size"])
            at += block["size"]
    return found


def pools_of(segments: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], int]:
    """Return the bytes that each private pool reserves but doesn't use, if any."""
    found: dict[tuple[int, int], int] = {}
    for segment in segments:
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        if pool != (0, 0):
            used = sum(one["size"] for one in segment["blocks"] if one["state"] != "inactive")
            found[pool] = found.get(pool, 0) + segment["total_size"] - used
    return {pool: unused for pool, unused in found.items() if unused}


def of_type(kind: type, name: str) -> Any:
    """Read a type's own attribute, such as `__name__`, without its metaclass's code."""
    return type.__dict__[name].__get__(kind)


def dict_of(thing: object) -> dict[str, Any] | None:
    """Return an object's `__dict__`; None if it has none, or if a property replaces it."""
    for base in of_type(type(thing), "__mro__"):
        slot = of_type(base, "__dict__").get("__dict__")
        if slot is not None:
            found = slot.__get__(thing) if type(slot) in BUILT_IN else None
            return found if type(found) is dict else None
    return None


def own(thing: object, name: str) -> Any:
    """Read an attribute without the program's `__getattr__`; None if it's missing, or if it's a
    property that fails.
    """
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None
    except Exception as error:
        if from_a_signal(error):
            raise
        return None
