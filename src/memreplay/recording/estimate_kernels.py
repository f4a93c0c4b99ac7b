"""Make operators on fake tensors allocate the memory that a GPU's kernels would."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from memreplay.recording.facts import header

# The lists of operators in PyTorch's autocast header, each with its kind of cast.
LISTS = {
    "LOWER_PRECISION_FP": "lower",
    "FP32": "float",
    "FP32_SET_OPT_DTYPE": "result",
    "PROMOTE": "widest",
}
# Sizes of cuBLAS and cuBLASLt workspaces on most cards, in bytes.
CUBLAS, CUBLASLT = 8_519_680, 1 << 20
WORKSPACES = {
    "mm": CUBLAS,
    "bmm": CUBLAS,
    "baddbmm": CUBLAS,
    "addbmm": CUBLAS,
    "addmm": CUBLASLT,
}
# Losses that return their scalar result in a storage as large as their input.
SPACIOUS = ("mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss")


class Kernels:
    """Memory that operators need beyond their results."""

    def __init__(self, torch: Any) -> None:
        of = torch.ops.aten
        self.workspaces = {getattr(of, name).default: size for name, size in WORKSPACES.items()}
        self.softmax = of._softmax_backward_data.default
        self.spacious = {getattr(of, name).default for name in SPACIOUS}

    def workspace(self, func: Any, args: Any) -> int:
        """Return how many bytes an operator uses temporarily."""
        if func in self.spacious:  # size of the unreduced losses
            return self.least(func, args)
        if func is self.softmax:  # size of the product of grad and output
            return int(args[1].numel() * max(one.element_size() for one in args[:2]))
        return self.workspaces.get(func, 0)

    def least(self, func: Any, args: Any) -> int:
        """Return the minimum size of an operator's result in bytes."""
        if func not in self.spacious:
            return 0
        return int(args[0].numel() * args[0].element_size())


@contextlib.contextmanager
def as_a_gpu_does(torch: Any) -> Iterator[None]:
    """Use the GPU's dropout, attention and autocast casts."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch has already registered a kernel
            library.impl("dropout", dropout(torch), "AutogradCPU")
            library.impl("scaled_dot_product_attention", attention(torch), "AutogradCPU")
            for name, how in casting(torch):
                library.impl(name, cast(torch, name, how), "AutocastCPU")
        yield
    finally:
        library._destroy()


def dropout(torch: Any) -> Callable[..., Any]:
    """Return dropout with a bool mask, as on a GPU. On a CPU, the mask has the input's type."""

    def kernel(tensor: Any, p: float, train: bool) -> Any:
        if train and 0 < p < 1:
            return torch.native_dropout(tensor, p, True)[0]
        return torch.ops.aten.dropout.default.decompose(tensor, p, train)

    return kernel


def attention(torch: Any) -> Callable[..., Any]:
    """Return fused attention without dropout, which would need the weight matrix on a CPU."""

    whole = torch.ops.aten.scaled_dot_product_attention.default.decompose

    def kernel(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        _: float = 0.0,
        is_causal: bool = False,
        **more: Any,
    ) -> Any:
        return whole(query, key, value, attn_mask, 0.0, is_causal, **more)

    return kernel


# --- autocast -------------------------------------------------------------------------------------


def casting(torch: Any) -> Iterator[tuple[str, str]]:
    """Yield the operators that autocast casts only on a GPU, each with its kind of cast."""
    text = header(os.path.dirname(torch.__file__), "ATen", "autocast_mode.h")
    for name, how in listed(text):
        full = f"aten::{name}"
        if has(torch, full, "AutocastCUDA") and not has(torch, full, "AutocastCPU"):
            yield name, how


def listed(text: str) -> Iterator[tuple[str, str]]:
    """Yield a list's operators, as name and overload."""
    for macro, how in LISTS.items():
        found = re.search(rf"#define AT_FORALL_{macro}\(_\)((?:.*\\\n)*.*)", text)
        for name, overload in re.findall(r"\b_\((\w+)(?:,\s*(\w+))?\)", found[1] if found else ""):
            yield f"{name}.{overload}" if overload else name, how


def has(torch: Any, name: str, key: str) -> bool:
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
    except RuntimeError:  # this PyTorch version doesn't have the operator
        return False


def cast(torch: Any, name: str, how: str) -> Callable[..., Any]:
    """Return autocast's cast for an operator."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    names = [one.name for one in operator._schema.arguments]
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            found = [one for one in tensors((args, kwargs)) if one.dtype in floats]
            if how == "result":
                at = names.index("dtype")
                given = args[at] if at < len(args) else kwargs.get("dtype")
                if found and given is None:
                    kwargs = {**kwargs, "dtype": torch.float32}
                    args = args[:at]
                return operator(*args, **kwargs)
            to = torch.float32
            if how == "lower":
                to = torch.get_autocast_dtype("cpu")
            elif how == "widest" and all(one.dtype is not to for one in found):
                return operator(*args, **kwargs)
            return operator(*converted(args, to), **converted(kwargs, to))

    floats = (torch.float32, torch.float16, torch.bfloat16)

    def tensors(given: Any) -> Iterator[Any]:
        if isinstance(given, torch.Tensor):
            yield given
        elif isinstance(given, dict):
            yield from tensors(tuple(given.values()))
        elif isinstance(given, (list, tuple)):
            for one in given:
                yield from tensors(one)

    def converted(given: Any, to: Any) -> Any:
        if isinstance(given, torch.Tensor):
            return given.to(to) if given.dtype in floats else given
        if isinstance(given, dict):
            return {key: converted(one, to) for key, one in given.items()}
        if isinstance(given, (list, tuple)):
            return type(given)(converted(one, to) for one in given)
        return given

    return kernel
