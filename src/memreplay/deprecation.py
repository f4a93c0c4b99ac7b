"""Old names that still work for a while: what took their place, and which version drops them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Old(NamedTuple):
    """An old name."""

    now: str
    """The new name; of an option that is only hidden, what to do instead of it, in words."""
    gone: str
    """The version that no longer has the old one: at least one minor version still warns."""


# Of commands: whichever has the new name takes the old one. docs/versions.md has this list, too.
OPTIONS = {
    "--only-baseline": Old("--only-carried-over", "0.3.0"),
    "--no-baseline": Old("--no-carried-over", "0.3.0"),
}
# Of the package: memreplay.NAME.
NAMES: dict[str, Old] = {}
# Of functions, by the names that the package has for them.
PARAMETERS: dict[str, dict[str, Old]] = {}


def option_note(option: str) -> str:
    """The line that a command says of an old option."""
    old = OPTIONS[option]
    if old.now.startswith("--"):
        return f"{option} is now {old.now}; memreplay {old.gone} drops the old name"
    return f"{option} goes in memreplay {old.gone}: {old.now}"


def new_name(name: str) -> str | None:
    """What the package calls an old name now, with a warning for whoever asked the caller for it;
    None for what never was."""
    old = NAMES.get(name)
    if old is None:
        return None
    _warn(f"memreplay.{name}", f"memreplay.{old.now}", old.gone, stacklevel=4)
    return old.now


def takes_old_names(function: str) -> Callable[[F], F]:
    """Decorates the function that the package has by this name: it takes old parameters, too."""

    def decorated(implemented: F) -> F:
        renamed = PARAMETERS.get(function)
        if not renamed:
            return implemented

        @functools.wraps(implemented)
        def taking(*args: Any, **kwargs: Any) -> Any:
            for name in renamed.keys() & kwargs.keys():
                old = renamed[name]
                if old.now in kwargs:
                    raise TypeError(
                        f"{function}() got {old.now} twice: {name} is an old name of it"
                    )
                _warn(f"{name}= of memreplay.{function}", f"{old.now}=", old.gone, stacklevel=3)
                kwargs[old.now] = kwargs.pop(name)
            return implemented(*args, **kwargs)

        return taking  # type: ignore[return-value]

    return decorated


def overdue(version: str) -> Iterator[str]:
    """Which old names this version should not have any more."""
    found = {
        **OPTIONS,
        **{f"memreplay.{name}": old for name, old in NAMES.items()},
        **{
            f"{name}= of memreplay.{function}": old
            for function, renamed in PARAMETERS.items()
            for name, old in renamed.items()
        },
    }
    for name, old in found.items():
        if _numbers(version) >= _numbers(old.gone):
            yield f"{name}: memreplay {old.gone} was to drop it"


def _warn(old: str, now: str, gone: str, stacklevel: int) -> None:
    warnings.warn(
        f"{old} is now {now}; memreplay {gone} drops the old name",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])
