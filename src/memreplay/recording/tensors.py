"""Where the memory of tensors is, and what there is that has tensors."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

DEEPEST = 8  # of what optimizers and callers put tensors into


class Addresses:
    """The blocks of tensors on one kind of device."""

    def __init__(self, torch: Any, kind: str) -> None:
        self.torch, self.Tensor, self.kind = torch, torch.Tensor, kind
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

    def of(self, tensor: Any) -> int:
        """Where the storage of a tensor begins; 0 where it is elsewhere, or nowhere."""
        if tensor.device.type != self.kind:
            return 0
        try:
            return int(tensor.untyped_storage().data_ptr())
        except (RuntimeError, NotImplementedError):  # of tensors that stand for others
            return 0

    def all(self, tensor: Any) -> Iterator[int]:
        """Those of a tensor, or of the tensors that it is made of."""
        if type(tensor) in self.plain:
            yield self.of(tensor)
            return
        for inner in self.inside(tensor):
            yield self.of(inner)

    def inside(self, tensor: Any) -> Iterator[Any]:
        """The plain tensors of a DTensor, or of another that can be taken apart."""
        local = getattr(tensor, "_local_tensor", None)
        if local is not None:
            yield from self.inside(local)
        elif hasattr(tensor, "__tensor_flatten__"):
            for name in tensor.__tensor_flatten__()[0]:
                yield from self.inside(getattr(tensor, name))
        else:
            yield tensor

    def found_in(self, thing: object, deep: int = 0) -> Iterator[Any]:
        """The tensors in dicts, lists and tuples."""
        if isinstance(thing, self.Tensor):
            yield thing
        elif deep < DEEPEST:
            if isinstance(thing, dict):
                for one in thing.values():
                    yield from self.found_in(one, deep + 1)
            elif isinstance(thing, (list, tuple)):
                for one in thing:
                    yield from self.found_in(one, deep + 1)


def living(*kinds: type) -> list[list[Any]]:
    """All objects of each kind."""
    objects = gc.get_objects()
    # By their types: what an object says of its class by itself may do anything.
    types = set(map(type, objects))
    of_kinds = [{one for one in types if issubclass(one, kind)} for kind in kinds]
    wanted = frozenset().union(*of_kinds)
    found = [one for one in objects if type(one) in wanted]
    return [[one for one in found if type(one) in of] for of in of_kinds]
