"""Tests of export/tables/querying.py; what queries find is tested with the command sql."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("duckdb")

from memreplay.export.tables.querying import Queries


def test_too_little_memory_to_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said as of any other memory."""
    import duckdb

    def fail(*_: Any, **__: Any) -> None:
        raise duckdb.OutOfMemoryException("Allocation failure")

    monkeypatch.setattr(duckdb, "connect", fail)
    with pytest.raises(MemoryError, match="Allocation failure"):
        Queries({})
