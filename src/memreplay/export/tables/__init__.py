"""Export a snapshot's tables as Arrow, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.export.tables.schema import TABLES, VERSION, table_spec

if TYPE_CHECKING:
    from memreplay.export.tables.arrow import Table
    from memreplay.export.tables.building import table

__all__ = ["TABLES", "VERSION", "Table", "table", "table_spec"]

_HOME = {"Table": "arrow", "table": "building"}


def __getattr__(name: str) -> object:
    # Imported lazily because they need NumPy.
    if name not in _HOME:
        raise AttributeError(f"module 'memreplay.export.tables' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"memreplay.export.tables.{_HOME[name]}"), name)
    return found
