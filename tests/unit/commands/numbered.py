"""Records whose numbers are all different, to check that each is under its own JSON key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict, replace


def numbered(one: Any) -> Any:
    """Return a copy of a record in which every integer is different."""
    return replace(one, **{name: 1_001 + k for k, name in enumerate(_numbers(one))})


def check_numbers(one: Any, found: Mapping[str, Any]) -> None:
    """Fail if any of a record's numbers isn't under the key with its name."""
    for name in _numbers(one):
        assert found[name] == getattr(one, name), name


def _numbers(one: Any) -> Iterable[str]:
    return [name for name, value in asdict(one).items() if type(value) is int]
