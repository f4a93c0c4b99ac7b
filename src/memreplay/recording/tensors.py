"""Where the memory of tensors is, and what there is that has tensors."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any, cast

from memreplay.recording.guarding import Guard

DEEPEST = 8  # of what optimizers and callers put tensors into
# What sparse tensors are made of, by their layouts.
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
    """The blocks of tensors on one kind of device.

    No question runs the program's code: a tensor's `__torch_function__`, `__getattr__` or
    `__bool__` may do anything. What fails all the same counts as a failure of `guard`, and the
    tensor has no blocks.
    """

    without_memory: tuple[str, ...] = ("FakeTensor",)
    """Kinds of tensors that have none, and warn those who ask where it is."""

    def __init__(self, torch: Any, kind: str, guard: Guard | None = None) -> None:
        self.torch, self.Tensor, self.kind = torch, torch.Tensor, kind
        self.guard = guard or Guard(torch)
        self.plain = (
            {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}
            if hasattr(torch.nn, "Buffer")
            else {torch.Tensor, torch.nn.Parameter}
        )

    def there(self) -> Iterator[int]:
        """All blocks that somebody holds."""
        devices = getattr(self.torch, self.kind)
        if not devices.is_initialized():
            return
        memory = devices.memory
        try:
            segments = memory.memory_snapshot(include_traces=False)
        except (AttributeError, TypeError):  # of a PyTorch before 2.10
            segments = memory._snapshot()["segments"]
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    yield block.get("address", address)
                address += block["size"]

    def all(self, tensor: Any) -> list[int]:
        """Where the storages begin of a tensor, or of the tensors that it is made of; empty if they
        are elsewhere, or nowhere."""
        found = self.guard.run("finding a tensor's memory", self.found, tensor)
        return found or []

    def found(self, tensor: Any) -> list[int]:
        if type(tensor) in self.plain:
            return self.of(tensor)
        return [address for inner in self.inside(tensor) for address in self.of(inner)]

    def of(self, tensor: Any) -> list[int]:
        """Those of a tensor that is not made of others, but for a sparse one's."""
        if tensor.device.type != self.kind:
            return []
        try:
            address = int(tensor.untyped_storage().data_ptr())
        except (RuntimeError, NotImplementedError):
            return [address for part in self.parts(tensor) for address in self.of(part)]
        return [address] if address else []

    def parts(self, tensor: Any) -> list[Any]:
        """The values of a sparse tensor, and where they are."""
        names = PARTS.get(str(tensor.layout), ())
        if not names:
            return []
        # Else the program's modes of dispatch would hear of operators that it doesn't run.
        with getattr(self.torch._C, "_DisableTorchDispatch", contextlib.nullcontext)():
            return [getattr(tensor, name)() for name in names]

    def inside(self, tensor: Any, deep: int = 0) -> Iterator[Any]:
        """The plain tensors of a DTensor, or of another that can be taken apart."""
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
            if type(tensor) not in self.plain:  # a wrapper may hold others as attributes
                for inner in (own(tensor, "__dict__") or {}).values():
                    if self.is_tensor(inner) and inner is not tensor:
                        yield from self.inside(inner, deep + 1)

    def is_tensor(self, thing: object) -> bool:
        """As isinstance, which would ask an object for its `__class__`."""
        return issubclass(type(thing), self.Tensor)

    def found_in(self, thing: object, deep: int = 0) -> Iterator[Any]:
        """The tensors in dicts, lists and tuples."""
        kind = type(thing)
        if self.is_tensor(thing):
            yield thing
        elif deep < DEEPEST:
            # By the methods of the builtin types: those of a subclass may do anything.
            inner: Any = ()
            if issubclass(kind, dict):
                inner = list(dict.values(cast("dict[Any, Any]", thing)))
            elif issubclass(kind, list):
                inner = list.__iter__(cast("list[Any]", thing))
            elif issubclass(kind, tuple):
                inner = tuple.__iter__(cast("tuple[Any, ...]", thing))
            for one in inner:
                yield from self.found_in(one, deep + 1)


def own(thing: object, name: str) -> Any:
    """An attribute without the program's `__getattr__`; None if there is none."""
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None


def living(*kinds: type) -> list[list[Any]]:
    """All objects of each kind."""
    objects = gc.get_objects()
    # By their types: what an object says of its class by itself may do anything.
    types = set(map(type, objects))
    of_kinds = [{one for one in types if issubclass(one, kind)} for kind in kinds]
    wanted = frozenset().union(*of_kinds)
    found = [one for one in objects if type(one) in wanted]
    return [[one for one in found if type(one) in of] for of in of_kinds]
