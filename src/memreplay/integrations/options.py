"""The options of all integrations, from Python, configuration files and the environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from memreplay.errors import UsageError
from memreplay.recording.continuous import Continuous

VARIABLE = "MEMREPLAY_OPTIONS"
"""The environment variable with options as text: `path=run.pickle steps=10-12 ranks=0,8`."""
NAME = "memory.rank{rank}.pickle"
"""The default file, in the framework's output folder. `memreplay fleet` finds the rank in it."""


class Options(NamedTuple):
    """What to record. Options that aren't given come from the environment's MEMREPLAY_OPTIONS."""

    path: str | None = None
    """The file or URL to write; `{rank}` is replaced by the rank. By default,
    `memory.rank{rank}.pickle` in the framework's output folder."""
    steps: tuple[int, int] | None = None
    """Record only these steps, from the first to the last, counted from 1; default: all."""
    every: int | None = None
    """Also write a snapshot every N steps."""
    ranks: frozenset[int] | None = None
    """Record only these ranks; default: all."""
    max_entries: int | None = 500_000
    """Keep only the last N events; None: all."""
    oom_only: bool = False
    """Write snapshots only when memory runs out, on SIGUSR1 and every N steps, not at the end."""
    stacks: Literal["auto", "python", "all"] = "auto"
    """Which frames to record."""
    source: bool = False
    """Save your own lines of code that appear in stacks."""
    holders: bool = False
    """Save who holds the memory."""
    continuous: bool | Mapping[str, float] = False
    """Record for days: write a file now and then and at each new peak, and keep the last ones."""
    pinned: bool = False
    """Also record pinned host memory, in PyTorch versions that can."""
    overwrite: bool = False
    """Replace existing files. Otherwise, a new file gets another name."""


def options_from(given: Mapping[str, Any]) -> Options:
    """Return the options that a program or its configuration gives. Values may be text.

    Raises UsageError.
    """
    values = {**from_environment(), **given}
    unknown = sorted(set(values).difference(Options._fields))
    if unknown:
        raise UsageError(
            f"unknown option {', '.join(unknown)}; known options: {', '.join(Options._fields)}"
        )
    found = {}
    for name, value in values.items():
        read = READ.get(name)
        try:
            found[name] = value if read is None or value is None else read(value)
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"{name}: {value!r} isn't valid") from None
    return Options(**found)


def from_environment() -> dict[str, str]:
    """Return the environment's options. Raises UsageError."""
    found = {}
    for part in shlex.split(os.environ.get(VARIABLE, "")):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"{VARIABLE}: write name=value, not {part!r}")
        found[name] = value
    return found


def read_steps(value: Any) -> tuple[int, int]:
    """Read `"10-12"`, `"10"`, `10` or `(10, 12)`. Not `10:12`, which is one number in YAML."""
    if isinstance(value, bool):
        raise TypeError(value)
    parts = value.split("-") if isinstance(value, str) else value
    first, *last = parts if isinstance(parts, Iterable) else (parts,)
    found = int(first), int(*last or (first,))
    if not 1 <= found[0] <= found[1]:
        raise ValueError(value)
    return found


def read_ranks(value: Any) -> frozenset[int]:
    """Read `"0,8"`, `"0-3"`, `0` or `[0, 8]`."""
    found: set[int] = set()
    if isinstance(value, str):
        for part in value.split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    else:
        found.update(map(int, value if isinstance(value, Iterable) else (value,)))
    if not found or min(found) < 0:
        raise ValueError(value)
    return frozenset(found)


def read_flag(value: Any) -> bool:
    if isinstance(value, str):
        return {"1": True, "true": True, "0": False, "false": False}[value.lower()]
    return bool(value)


def read_every(value: Any) -> int:
    found = int(value)
    if found < 1:
        raise ValueError(value)
    return found


def read_entries(value: Any) -> int | None:
    return None if value in ("none", "all") else read_every(value)


def read_stacks(value: Any) -> str:
    return {"auto": "auto", "python": "python", "all": "all"}[value]


def read_continuous(value: Any) -> bool | Mapping[str, float]:
    """Read `True`, a dict, or `"true"` or `"seconds=60,keep=20"`."""
    found: bool | Mapping[str, float]
    if isinstance(value, Mapping):
        found = value
    elif isinstance(value, str) and "=" in value:
        pairs = [part.partition("=") for part in value.split(",")]
        found = {
            name: int(number) if number.isdecimal() else float(number) for name, _, number in pairs
        }
    else:
        found = read_flag(value)
    Continuous.asked(found)  # raises UsageError
    return found


READ: dict[str, Callable[[Any], Any]] = {
    "path": os.fspath,
    "steps": read_steps,
    "every": read_every,
    "ranks": read_ranks,
    "max_entries": read_entries,
    "oom_only": read_flag,
    "stacks": read_stacks,
    "source": read_flag,
    "holders": read_flag,
    "continuous": read_continuous,
    "pinned": read_flag,
    "overwrite": read_flag,
}
