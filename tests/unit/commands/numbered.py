"""Records in which each number is another one, and whether each reached its own key of the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict, replace


def numbered(one: Any) -> Any:
    """A copy of a record in which each whole number is another one."""
    return replace(one, **{name: 1_001 + k for k, name in enumerate(_numbers(one))})


def check_numbers(one: Any, found: Mapping[str, Any]) -> None:
    """Raises where a number of a record is not what the key of its name says."""
    for name in _numbers(one):
        assert found[name] == getattr(one, name), name


def _numbers(one: Any) -> Iterable[str]:
    return [name for name, value in asdict(one).items() if type(value) is int]
