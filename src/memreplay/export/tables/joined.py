"""Concatenate several snapshots' tables into one Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from memreplay.export.tables.arrow import arrow_schema
from memreplay.export.tables.building import table
from memreplay.export.tables.schema import TABLES, table_spec
from memreplay.snapshot.arrow_columns import arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.analysis.categories.rules import Rule
    from memreplay.snapshot.snapshot import Snapshot

FLAT = "flat"  # the table of allocations with their call site
WHOSE = "snapshot"  # the column that identifies a row's snapshot


class Source(NamedTuple):
    """A snapshot and the label of its rows. The label is None for a single snapshot."""

    snapshot: Snapshot
    label: str | None


class Joined:
    """One table of all sources, for any library that scans Arrow streams.

    Rows are built during a scan. Scans may be repeated, and may run on several threads. All tables
    of the sources share a lock, which protects what the snapshots cache.
    """

    def __init__(
        self, name: str, sources: tuple[Source, ...], rules: tuple[Rule, ...], lock: Lock
    ) -> None:
        self.name = name
        self.is_flat = name == FLAT
        self.table = "allocations" if self.is_flat else name
        self.sources = sources
        self.rules = rules
        self.lock = lock
        labels = [WHOSE] if sources[0].label is not None else []
        self.schema = arrow_schema(table_spec(self.table, flat=self.is_flat), {}, labels)

    @property
    def rows(self) -> int:
        """Number of rows. Asks each snapshot."""
        return sum(table(one.snapshot, self.table).rows for one in self.sources)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, snapshot by snapshot."""
        for snapshot, label in self.sources:
            labels = None if label is None else {WHOSE: label}
            with self.lock:
                made = table(
                    snapshot, self.table, rules=self.rules, labels=labels, flat=self.is_flat
                ).file_batches()
            while True:
                with self.lock:
                    batch = next(made, None)
                if batch is None:
                    break
                yield batch.replace_schema_metadata(None)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = arrow().RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


def joined_tables(snapshots: Mapping[str, Snapshot], rules: tuple[Rule, ...]) -> dict[str, Joined]:
    """Return all tables of the snapshots by name, `flat` last."""
    several = len(snapshots) > 1
    sources = tuple(Source(one, name if several else None) for name, one in snapshots.items())
    lock = Lock()
    return {name: Joined(name, sources, rules, lock) for name in (*TABLES, FLAT)}
