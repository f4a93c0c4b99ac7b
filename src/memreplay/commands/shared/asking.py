"""Options as records: a command's function takes what it is asked as a few of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.config import ConfigChoice

F = TypeVar("F", bound=Callable[..., Any])

# Rows of holders take three lines: so many fit a screen. Programs get more.
SCREEN_ROWS, JSON_ROWS = 10, 20


def asks(record: type[Struct]) -> Callable[[F], F]:
    """The options that `record` has a field for, as one argument `asked`."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def command(**kwargs: Any) -> Any:
            asked = record(**{name: kwargs.pop(name) for name in record.__struct_fields__})
            kwargs.pop("config", None)  # it is in the selection, and in what is read
            return function(asked=asked, **kwargs)

        return command  # type: ignore[return-value]

    return decorated


def selects(function: F) -> F:
    """The options that a Selection has a field for, as one argument `selection`.

    With a configuration the selection has its rules, if `by` has to do with categories.
    """
    return _selects(function, always=False)


def selects_with_rules(function: F) -> F:
    """As `selects`, for a report that has categories whatever `by` is."""
    return _selects(function, always=True)


def _selects(function: F, *, always: bool) -> F:
    @functools.wraps(function)
    def command(**kwargs: Any) -> Any:
        fields = [name for name in Selection.__struct_fields__ if name in kwargs]
        chosen = {name: kwargs.pop(name) for name in fields}
        if "top" in chosen and chosen["top"] is None:
            chosen["top"] = JSON_ROWS if kwargs.get("fmt") == "json" else SCREEN_ROWS
        config: ConfigChoice | None = kwargs.get("config")
        if config is not None:
            chosen["rules"] = config.rules() if always else config.rules_for(chosen.get("by"))
        return function(selection=Selection(**chosen), **kwargs)

    return command  # type: ignore[return-value]
