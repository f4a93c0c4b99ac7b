"""Name modules as reports do.

A dry run also loads this file in the program's Python, which may lack memreplay, so it imports
nothing of memreplay.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

# Attributes in which PyTorch's wrappers hold the wrapped module. They are left out of module names.
# Many programs have an attribute `module`, so that one only counts in these classes.
WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
WRAPPED_AS_MODULE = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
WRAPPING = ("DistributedDataParallel", "DataParallel", "OptimizedModule")


def submodules(module: Any) -> dict[str, Any]:
    """Return a module's direct submodules; empty if it's half-initialized.

    Modules are inspected only through `__dict__`, because the program may override `__getattr__`.
    """
    found = dict.get(object.__getattribute__(module, "__dict__"), "_modules")
    return {key: one for key, one in found.items() if one is not None} if found else {}


def title_of(module: Any, taken: Collection[str]) -> str:
    """Return a model's name: its type, with a number if the name is taken."""
    while type(module).__name__ in WRAPPING and len(submodules(module)) == 1:
        (module,) = submodules(module).values()
    name = title = type(module).__name__
    count = 1
    while title in taken:
        count += 1
        title = f"{name}#{count}"
    return title


def within(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield a module and its submodules once each, ordered and named as by `named_modules()`.

    Names skip the attributes of PyTorch's wrappers.
    """
    seen: set[int] = set()
    waiting = [("", root)]
    while waiting:
        name, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        wraps = type(module).__name__ in WRAPPED_AS_MODULE
        inner = []
        for key, one in submodules(module).items():
            silent = key in WRAPPED or (wraps and key == "module")
            inner.append((name if silent else f"{name}.{key}" if name else str(key), one))
        waiting += reversed(inner)
