"""The tables that are exported, a batch of rows at a time, as Arrow."""

from __future__ import annotations

from memreplay.tables.arrow import BATCH_ROWS, Table
from memreplay.tables.making import table
from memreplay.tables.schema import TABLES, VERSION, table_spec

__all__ = ["BATCH_ROWS", "TABLES", "VERSION", "Table", "table", "table_spec"]
