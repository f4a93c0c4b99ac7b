"""Records in which each number is another one, and whether each reached its own key of the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any


def numbered(one: Any) -> Any:
    """A copy of a record in which each whole number is another one."""
    return replace(one, **{name: 1_001 + k for k, name in enumerate(_numbers(one))})


def check_numbers(
    one: Any, found: Mapping[str, Any], names: Mapping[str, str] | None = None, but: str = ""
) -> None:
    """Raises where a number of a record is not what its key says; `names` are those of keys that
    are called otherwise, and `but` the fields, in one string, that have none."""
    for name in _numbers(one):
        if name not in but.split():
            assert found[(names or {}).get(name, name)] == getattr(one, name), name


def _numbers(one: Any) -> Iterable[str]:
    return [field.name for field in fields(one) if type(getattr(one, field.name)) is int]
