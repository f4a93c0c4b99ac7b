"""What is done most often while a program is recorded: a module is called, a gradient is there."""

import weakref
from collections.abc import Callable
from typing import Any

def begin(
    theirs: Callable[..., Any] | None,
    numbers_by_id: dict[int, int],
    if_found: Callable[[Any, tuple[Any, ...], dict[str, Any]], int],
) -> None: ...
def call(module: Any, *args: Any, **kwargs: Any) -> Any: ...
def end() -> None: ...
def mark_gradients(
    parameters: list[Any],
    category: int,
    owners: dict[int, tuple[weakref.ref[Any], int]],
    plain: type,
) -> list[Any]: ...
