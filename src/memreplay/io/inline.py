"""An executor without threads: work is done when it's submitted."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


class Inline(Executor):
    """Runs each function in the thread that submits it."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Run the function, and return its result or error."""
        found: Future[R] = Future()
        try:
            found.set_result(fn(*args, **kwargs))
        except Exception as error:
            found.set_exception(error)
        return found
