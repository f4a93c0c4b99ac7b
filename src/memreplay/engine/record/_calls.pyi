"""The hot callbacks of a recording: a module is called, a gradient is ready."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import disjoint_base

def begin(
    theirs: Callable[..., Any] | None,
    numbers_by_id: dict[int, int],
    if_found: Callable[[Any, tuple[Any, ...], dict[str, Any]], int],
) -> None: ...
def call(module: Any, *args: Any, **kwargs: Any) -> Any: ...
def end() -> None: ...

@disjoint_base
class Place:
    def __init__(self, module: weakref.ref[Any], name: str) -> None: ...
    def __call__(self) -> Any: ...

@disjoint_base
class Gradients:
    def __init__(
        self,
        category: int,
        owners: Mapping[int, tuple[Callable[[], Any], int]],
        plain: type,
        other: Callable[[Any], object],
    ) -> None: ...
    def mark(self, parameter: Any) -> None: ...
    def __call__(self, parameter: Any) -> None: ...
    def mark_all(self, parameters: list[Any]) -> None: ...
