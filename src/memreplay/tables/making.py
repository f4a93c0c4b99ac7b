"""Makes a table of a snapshot by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memreplay.analysis.categories import DEFAULT_RULES
from memreplay.errors import UsageError
from memreplay.tables.allocations import allocation_batches, allocation_rows
from memreplay.tables.arrow import Table, spelled
from memreplay.tables.events import event_batches
from memreplay.tables.final import annotation_batches, block_batches, segment_batches
from memreplay.tables.schema import VERSION, table_spec
from memreplay.tables.stacks import frame_batches, stack_batches
from memreplay.tables.usage import usage_batches, usage_rows

if TYPE_CHECKING:
    from memreplay.analysis.categories import Rule
    from memreplay.snapshot import Snapshot

Maker = Callable[["Snapshot"], Iterator[dict[str, Any]]]

_MAKERS: dict[str, Maker] = {
    "events": event_batches,
    "stacks": stack_batches,
    "frames": frame_batches,
    "segments": segment_batches,
    "blocks": block_batches,
    "annotations": annotation_batches,
    "usage": usage_batches,
}


def _rows(snap: Snapshot, name: str) -> int:
    if name == "usage":
        return usage_rows(snap)
    count: int = getattr(snap.native, f"n_{name}")
    return count


def table(
    snap: Snapshot,
    name: str,
    *,
    rules: tuple[Rule, ...] = DEFAULT_RULES,
    labels: Mapping[str, str | None] | None = None,
) -> Table:
    """A table of a snapshot: see docs/schema.md. `rules` make the column `category`; `labels` are
    more columns, of one text (or null) each.

    Raises UsageError for a name that there is not, MissingExtraError without pyarrow.
    """
    spec = table_spec(name)
    about = {
        "memreplay.table": name,
        "memreplay.schema": str(VERSION),
        "memreplay.file": spelled(snap.file),
        "memreplay.settings": json.dumps(snap.settings, sort_keys=True),
    }
    if name == "allocations":
        rows = sum(allocation_rows(snap.replay(device)) for device in snap.devices)
        return Table(spec, about, rows, lambda: allocation_batches(snap, rules), labels)
    make = _MAKERS[name]
    return Table(spec, about, _rows(snap, name), lambda: make(snap), labels)


def tables_named(names: str) -> tuple[str, ...]:
    """The tables of a comma-separated list, each once. Raises UsageError."""
    found = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not found:
        raise UsageError("no table was named")
    return tuple(table_spec(name).name for name in found)
