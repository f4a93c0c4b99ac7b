"""The tables that are exported, a batch of rows at a time, as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.tables.schema import TABLES, VERSION, table_spec

if TYPE_CHECKING:
    from memreplay.tables.arrow import Table
    from memreplay.tables.making import table

__all__ = ["TABLES", "VERSION", "Table", "table", "table_spec"]

_HOME = {"Table": "arrow", "table": "making"}


def __getattr__(name: str) -> object:
    # Late: they import NumPy.
    if name not in _HOME:
        raise AttributeError(f"module 'memreplay.tables' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"memreplay.tables.{_HOME[name]}"), name)
    return found
