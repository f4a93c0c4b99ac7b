"""The options that say which allocations alone count."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from memreplay.commands.shared.size import SizeType

F = TypeVar("F", bound=Callable[..., Any])


def _pattern(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuses what is not a regular expression, before a large file is read."""
    if value:
        from memreplay.analysis.selecting.filters import searches
        from memreplay.errors import UsageError

        try:
            for text in value:
                searches(text)
        except UsageError as error:
            raise click.BadParameter(str(error)) from None
    return value


def filter_options(function: F) -> F:
    """--include, --exclude, --min-bytes, --only-live-at-end, --only-carried-over and
    --no-carried-over: what alone counts, as one argument `filters`, None for everything."""
    names = ("include", "exclude", "min_bytes", "only_live_at_end", "only_carried", "no_carried")
    return filter_options_of(*names)(function)


def filter_options_of(*names: str) -> Callable[[F], F]:
    """Some of these alone, for a command to which the others say nothing."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def command(*args: Any, **kwargs: Any) -> Any:
            from memreplay.analysis.selecting.selection import Filters

            filters = Filters(**{name: kwargs.pop(f"filter_{name}") for name in names})
            return function(*args, filters=filters or None, **kwargs)

        for name in reversed(names):
            command = _FILTERS[name](command)
        return command  # type: ignore[return-value]

    return decorated


def _filter(option: str, name: str, **settings: Any) -> Callable[[F], F]:
    # The name is not the option's: a command may have an option of that name that is no filter.
    return click.option(option, f"filter_{name}", **settings)


_FILTERS: dict[str, Callable[[Any], Any]] = {
    "include": _filter(
        "--include",
        "include",
        multiple=True,
        callback=_pattern,
        metavar="REGEX",
        help="Only allocations with a frame whose function, file:line or file:function matches"
        " this; a place copied from a table works too. Repeat to match any of several.",
    ),
    "exclude": _filter(
        "--exclude",
        "exclude",
        multiple=True,
        callback=_pattern,
        metavar="REGEX",
        help="Leave out allocations with such a frame.",
    ),
    "min_bytes": _filter(
        "--min-bytes",
        "min_bytes",
        type=SizeType(),
        default=0,
        metavar="SIZE",
        help="Only allocations of at least this size (64K, 1MiB).",
    ),
    "only_live_at_end": _filter(
        "--only-live-at-end",
        "only_live_at_end",
        is_flag=True,
        help="Only allocations that are never freed.",
    ),
    "only_carried": _filter(
        "--only-carried-over",
        "only_carried",
        is_flag=True,
        help="Only what was live before the first event.",
    ),
    "no_carried": _filter(
        "--no-carried-over",
        "no_carried",
        is_flag=True,
        help="Leave out what was live before the first event.",
    ),
}
