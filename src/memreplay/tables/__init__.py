"""The tables that are exported, a batch of rows at a time, as Arrow."""

from __future__ import annotations

from memreplay.tables.arrow import Table
from memreplay.tables.making import table
from memreplay.tables.schema import TABLES, VERSION, table_spec

__all__ = ["TABLES", "VERSION", "Table", "table", "table_spec"]
