"""Operators that a GPU does otherwise than a CPU, done on fake tensors as a GPU would."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from memreplay.recording.facts import header

# The lists of PyTorch's header by which autocast casts, each with what it does.
LISTS = {
    "LOWER_PRECISION_FP": "lower",
    "FP32": "float",
    "FP32_SET_OPT_DTYPE": "result",
    "PROMOTE": "widest",
}
# What cuBLAS and cuBLASLt take while they multiply matrices, as PyTorch has them on most cards.
CUBLAS, CUBLASLT = 8_519_680, 1 << 20
WORKSPACES = {
    "mm": CUBLAS,
    "bmm": CUBLAS,
    "baddbmm": CUBLAS,
    "addbmm": CUBLAS,
    "addmm": CUBLASLT,
}
# Losses whose result lies in a storage as large as their input, of which they need one number.
SPACIOUS = ("mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss")


class Kernels:
    """What operators take beyond the tensors that they return."""

    def __init__(self, torch: Any) -> None:
        of = torch.ops.aten
        self.workspaces = {getattr(of, name).default: size for name, size in WORKSPACES.items()}
        self.softmax = of._softmax_backward_data.default
        self.spacious = {getattr(of, name).default for name in SPACIOUS}

    def workspace(self, func: Any, args: Any) -> int:
        """The bytes that an operator takes while it runs."""
        if func in self.spacious:  # each loss, before they are summed
            return self.least(func, args)
        if func is self.softmax:  # the product of what it is given
            return int(args[1].numel() * max(one.element_size() for one in args[:2]))
        return self.workspaces.get(func, 0)

    def least(self, func: Any, args: Any) -> int:
        """The bytes of what it returns, at least."""
        if func not in self.spacious:
            return 0
        return int(args[0].numel() * args[0].element_size())


@contextlib.contextmanager
def as_a_gpu_does(torch: Any) -> Iterator[None]:
    """Dropout, attention, and the casts of autocast."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is a kernel already
            library.impl("dropout", dropout(torch), "AutogradCPU")
            library.impl("scaled_dot_product_attention", attention(torch), "AutogradCPU")
            for name, how in casting(torch):
                library.impl(name, cast(torch, name, how), "AutocastCPU")
        yield
    finally:
        library._destroy()


def dropout(torch: Any) -> Callable[..., Any]:
    """With a mask of bools; a CPU's has the type of what is dropped."""

    def kernel(tensor: Any, p: float, train: bool) -> Any:
        if train and 0 < p < 1:
            return torch.native_dropout(tensor, p, True)[0]
        return torch.ops.aten.dropout.default.decompose(tensor, p, train)

    return kernel


def attention(torch: Any) -> Callable[..., Any]:
    """Without dropout: with it a CPU has no kernel that does without the matrix of weights."""

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
    """The operators that autocast casts for on a GPU and not on a CPU, and how."""
    text = header(os.path.dirname(torch.__file__), "ATen", "autocast_mode.h")
    for name, how in listed(text):
        full = f"aten::{name}"
        if has(torch, full, "AutocastCUDA") and not has(torch, full, "AutocastCPU"):
            yield name, how


def listed(text: str) -> Iterator[tuple[str, str]]:
    """The operators of its lists, by their names with the overloads."""
    for macro, how in LISTS.items():
        found = re.search(rf"#define AT_FORALL_{macro}\(_\)((?:.*\\\n)*.*)", text)
        for name, overload in re.findall(r"\b_\((\w+)(?:,\s*(\w+))?\)", found[1] if found else ""):
            yield f"{name}.{overload}" if overload else name, how


def has(torch: Any, name: str, key: str) -> bool:
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))
    except RuntimeError:  # an operator that this PyTorch has not
        return False


def cast(torch: Any, name: str, how: str) -> Callable[..., Any]:
    """What autocast does before an operator."""
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
