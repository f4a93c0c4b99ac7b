"""Answer device queries as a machine with a GPU would, for a program on fake CPU tensors."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

from memreplay.errors import UsageError
from memreplay.recording.estimate_storages import CARD, HOST, Storages

KINDS = ("cuda", "xpu")  # device types that count as the GPU
FOREACH = ("torch.utils._foreach_utils", "torch.optim.optimizer")


class Devices:
    """Track which device each tensor would be on."""

    def __init__(self, torch: Any, fake: Any, storages: Storages) -> None:
        self.torch, self.fake, self.storages = torch, fake, storages
        self.kind = KINDS[0]  # the device type that the program named
        self.wanted: int | None = None  # where new tensors are created
        # enters the mode that intercepts Python functions again
        self.again: Callable[[], Any] = contextlib.nullcontext
        tensor = torch.Tensor
        # Replacements for Python functions and tensor attributes.
        self.instead: dict[Any, Callable[..., Any]] = {
            tensor.is_cuda.__get__: lambda _, one: self.is_on("cuda", one),
            tensor.is_xpu.__get__: lambda _, one: self.is_on("xpu", one),
            tensor.is_cpu.__get__: lambda func, one: self.of(one) != CARD and func(one),
            tensor.get_device: lambda func, one: 0 if self.of(one) == CARD else func(one),
            tensor.cuda: self.cuda,
            tensor.xpu: self.cuda,
            tensor.cpu: lambda _, one, **more: self.moved(tensor.to, one, HOST, (), more),
            tensor.to: self.to,
            tensor.pin_memory: lambda _, one, *__: one,
            tensor.is_pinned: lambda *_, **__: False,
            tensor.record_stream: lambda *_: None,
            tensor.data_ptr: self.address,
            tensor.backward: self.backward,
        }
        self.scalar = torch.ops.aten._local_scalar_dense.default
        self.lifts = {
            torch.ops.aten.lift_fresh.default,
            torch.ops.aten.lift_fresh_copy.default,
            torch.ops.aten.lift.default,
        }

    # --- Python's functions -----------------------------------------------------------------------

    def function(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Handle a torch function or a tensor attribute."""
        instead = self.instead.get(func)
        if instead is not None:
            return instead(func, *args, **kwargs)
        place = self.named(kwargs.get("device"))
        if place is None:
            if isinstance(func, FunctionType) and any(self.of(one) == CARD for one in args):
                # Nested calls aren't intercepted.
                with self.wanting(CARD):
                    return func(*args, **kwargs)
            return func(*args, **kwargs)
        with self.wanting(place):
            return func(*args, **{**kwargs, "device": "cpu"})

    def backward(self, _: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
        """Run Tensor.backward, in which checkpoints call the program again."""
        if "gradient" in kwargs:
            kwargs["grad_tensors"] = kwargs.pop("gradient")
        with self.again():
            self.torch.autograd.backward(tensor, *args, **kwargs)

    def named(self, device: Any) -> int | None:
        """Return the place that a device argument refers to; None if there is no device or it isn't
        supported.
        """
        if device is None:
            return None
        if isinstance(device, int):
            return CARD
        kind = (
            device.type if isinstance(device, self.torch.device) else str(device).partition(":")[0]
        )
        if kind in KINDS:
            self.kind = kind
            return CARD
        return HOST if kind == "cpu" else None

    def of(self, tensor: Any) -> int | None:
        """Return a tensor's place; None for unseen tensors and for other objects."""
        block = self.storages.known(tensor.untyped_storage()) if self.counts(tensor) else None
        return None if block is None else block.place

    def counts(self, tensor: Any) -> bool:
        """Return whether a tensor is fake and counts as memory."""
        return isinstance(tensor, self.fake) and tensor.fake_device.type == "cpu"

    @contextlib.contextmanager
    def wanting(self, place: int) -> Iterator[None]:
        before, self.wanted = self.wanted, place
        try:
            yield
        finally:
            self.wanted = before

    def device(self, tensor: Any, theirs: Any) -> Any:
        """Return a fake tensor's device: the program sees a GPU, PyTorch the real device."""
        if self.torch._C._is_torch_function_all_disabled() or self.of(tensor) != CARD:
            return theirs.__get__(tensor)
        return self.torch.device(self.kind, 0)

    def is_on(self, kind: str, tensor: Any) -> bool:
        return self.kind == kind and self.of(tensor) == CARD

    def address(self, func: Any, tensor: Any) -> Any:
        block = self.storages.known(tensor.untyped_storage()) if self.counts(tensor) else None
        if block is None:
            return func(tensor)
        return block.address + tensor.storage_offset() * tensor.element_size()

    def cuda(self, _: Any, tensor: Any, *__: Any, **___: Any) -> Any:
        return self.moved(self.torch.Tensor.to, tensor, CARD, (), {})

    def to(self, func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Handle Tensor.to in all its forms."""
        place = None
        if "device" in kwargs:
            kwargs = dict(kwargs)
            place = self.named(kwargs.pop("device"))
        elif args and isinstance(args[0], self.torch.Tensor):
            place = self.of(args[0])
            args = (args[0].dtype, *args[1:])
        elif args and isinstance(args[0], (str, int, self.torch.device)):
            place = self.named(args[0])
            if place is not None:
                args = args[1:]
        if place is None:
            return func(tensor, *args, **kwargs)
        return self.moved(func, tensor, place, args, kwargs)

    def moved(
        self, func: Any, tensor: Any, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the tensor moved to a place: the tensor itself if it's already there, otherwise a
        copy.
        """
        kwargs.pop("memory_format", None) if kwargs.get("memory_format", 0) is None else None
        # A tensor that wasn't seen before belongs to the host, so it's already there.
        here = self.of(tensor)
        if here == place or (here is None and place == HOST):
            return func(tensor, *args, **kwargs) if args or kwargs else tensor
        dtype = next((one for one in args if isinstance(one, self.torch.dtype)), None)
        kept = {
            name: kwargs[name]
            for name in ("dtype", "memory_format")
            if kwargs.get(name) is not None
        }
        with self.wanting(place):
            return func(tensor, **({"dtype": dtype} if dtype else {}), **kept, copy=True)

    # --- operators --------------------------------------------------------------------------------

    def operator(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], flat: list[Any]
    ) -> tuple[Any, int]:
        """Return an operator's result and place. `flat`: its tensor arguments."""
        if func is self.scalar:
            value = self.value(args[0])
            if value is not None:
                return value, HOST
        if func not in self.lifts:
            self.refuse(flat)
        place = self.wanted
        if self.named(kwargs.get("device")) == CARD:
            kwargs = {**kwargs, "device": self.torch.device("cpu")}
            place = CARD if place is None else place
        if place is None:
            on_card = any(self.of(one) == CARD for one in flat)
            place = CARD if on_card or (not flat and self.in_backward()) else HOST
        return func(*args, **kwargs), place

    def in_backward(self) -> bool:
        return bool(self.storages.events[CARD]) and self.torch._C._current_graph_task_id() != -1

    def value(self, tensor: Any) -> Any:
        """Return a stand-in for `item()` of an unknown value; None if the value is known."""
        if not isinstance(tensor, self.fake) or tensor.constant is not None:
            return None
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            return 0.0
        return False if tensor.dtype is self.torch.bool else 1

    def refuse(self, flat: list[Any]) -> None:
        """Refuse real parameters, because their memory would be missing."""
        for one in flat:
            if (
                not isinstance(one, self.fake)
                and one.requires_grad
                and type(one) is not self.torch.Tensor
            ):
                raise UsageError(
                    "a model was created before the estimate began; create the model, optimizer"
                    " and inputs inside it"
                )


@contextlib.contextmanager
def as_on_a_gpu(torch: Any, fake: Any, mode: Any, devices: Devices) -> Iterator[None]:
    """Make optimizers, gradient clipping and autocast behave as on a GPU."""
    with contextlib.ExitStack() as undo:
        theirs = vars(fake)["device"]
        replace(undo, fake, "device", property(lambda self: devices.device(self, theirs)))
        for name in FOREACH:
            module = importlib.import_module(name)
            types = getattr(module, "_foreach_supported_types", None)
            if types is not None and fake not in types:
                types.append(fake)
                undo.callback(types.remove, fake)
            kinds = getattr(module, "_get_foreach_kernels_supported_devices", None)
            if kinds is not None:
                replace(undo, module, kinds.__name__, lambda kinds=kinds: [*kinds(), "cpu"])
        autocast = importlib.import_module("torch.amp.autocast_mode").autocast
        init = autocast.__init__

        def begin(
            self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any
        ) -> None:
            if device_type in KINDS:
                if dtype is None:
                    dtype = torch.get_autocast_dtype(device_type)
                device_type = "cpu"
            init(self, device_type, dtype, *args, **kwargs)

        replace(undo, autocast, "__init__", begin)
        swap = torch.utils.swap_tensors

        def forget_and_swap(one: Any, other: Any) -> None:
            # PyTorch doesn't swap tensors that have weak references, which this mode holds.
            mode.fake_tensor_converter.meta_converter.tensor_memo.clear()
            with contextlib.ExitStack() as none:
                if hasattr(torch.utils, "weakref"):
                    replace(none, torch.utils, "weakref", SimpleNamespace(getweakrefs=lambda _: []))
                swap(one, other)

        replace(undo, torch.utils, "swap_tensors", forget_and_swap)
        yield


def replace(undo: contextlib.ExitStack, of: Any, name: str, by: Any) -> None:
    """Set an attribute until `undo` restores it."""
    undo.callback(setattr, of, name, vars(of)[name])
    setattr(of, name, by)
