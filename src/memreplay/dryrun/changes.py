"""Changes that a dry run makes to a program from outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from memreplay.errors import UsageError

CHANGES: dict[str, tuple[str, ...]] = {
    "checkpoint": (),
    "foreach": ("off",),
    "fused": ("on",),
    "set-to-none": ("on",),
    "autocast-cache": ("off",),
}
"""The values of each change; () if it takes patterns of modules. inside/memreplay_changing.py makes
the changes.
"""


class Change(NamedTuple):
    """A change to a program."""

    name: str
    value: str

    @property
    def text(self) -> str:
        """The change as given to `--change`."""
        return f"{self.name}={self.value}"


def parse_change(text: str) -> Change:
    """Parse `NAME=VALUE`. Raises UsageError."""
    name, _, value = (one.strip() for one in text.partition("="))
    if name not in CHANGES:
        names = ", ".join(CHANGES)
        raise UsageError(f"--change {text!r}: there is no such change; these exist: {names}")
    values = CHANGES[name]
    if not values:
        patterns = [one.strip() for one in value.split(",")]
        if not all(patterns):
            raise UsageError(f"--change {text!r} needs names of modules, such as {name}=layers.*")
        return Change(name, ",".join(patterns))
    if name == "set-to-none" and not value:
        value = "on"
    if value not in values:
        raise UsageError(f"--change {text!r}: the value must be {' or '.join(values)}")
    return Change(name, value)


def is_change(text: str) -> bool:
    """Return whether a text starts with a change's name."""
    return text.partition("=")[0].strip() in CHANGES


def as_environment(changes: Sequence[Change]) -> str:
    """Return changes in the form that a program's processes read."""
    return json.dumps([list(one) for one in changes])
