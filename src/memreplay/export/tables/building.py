"""Build a snapshot's table by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.selecting.answering import as_snapshot
from memreplay.export.tables.allocations import allocation_batches, allocation_rows
from memreplay.export.tables.arrow import Table, spelled
from memreplay.export.tables.events import event_batches
from memreplay.export.tables.final import annotation_batches, block_batches, segment_batches
from memreplay.export.tables.schema import VERSION, table_spec
from memreplay.export.tables.stacks import frame_batches, stack_batches
from memreplay.export.tables.usage import usage_batches, usage_rows
from memreplay.snapshot.snapshot import KEPT

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.snapshot.snapshot import Snapshot

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
    snap: Snapshot | str | os.PathLike[str],
    name: str,
    *,
    rules: tuple[Rule, ...] = DEFAULT_RULES,
    labels: Mapping[str, str | None] | None = None,
    flat: bool = False,
) -> Table:
    """Return the table `name` of a snapshot (docs/schema.md).

    `rules` fill the column `category` if no categories were recorded. `labels` add constant text
    columns (None for null). A label named like a column becomes `snapshot_NAME`, because few
    readers accept duplicates. `flat` adds function, file and line to the allocations, which saves a
    join.

    `snap` may be a path. Raises UsageError for an unknown name, MissingExtraError without pyarrow.
    """
    spec = table_spec(name, flat=flat)
    opened: Snapshot = as_snapshot(snap)
    own = {column.name for column in spec.columns}
    labels = {
        f"snapshot_{key}" if key in own else key: word for key, word in (labels or {}).items()
    }
    about = {
        "memreplay.table": name,
        "memreplay.schema": str(VERSION),
        "memreplay.file": spelled(opened.file),
        "memreplay.snapshot": json.dumps(_said(opened), sort_keys=True),
    }
    if name == "allocations":
        rows = sum(allocation_rows(opened.replay(device)) for device in opened.devices)
        return Table(
            spec, about, rows, lambda: allocation_batches(opened, rules, flat=flat), labels
        )
    make = _MAKERS[name]
    return Table(spec, about, _rows(opened, name), lambda: make(opened), labels)


def _said(snap: Snapshot) -> dict[str, Any]:
    """Return the facts that are needed to read the tables as a snapshot (`dataset`) but that no
    table contains.
    """
    native = snap.native
    prelude: dict[str, Any] = {}
    if native.has_segments:
        prelude["segments"] = []
    if native.has_traces:
        prelude["device_traces"] = []
    if native.has_annotations:
        prelude["external_annotations"] = []
    for name, key in KEPT.items():
        found = snap.kept(name)
        if found is not None:
            prelude[key] = found
    traces = native.traces()
    return {
        # Tables store empty values as null, so they don't say whether the key existed.
        "traits": sorted(snap.traits),
        "prelude": prelude,
        "protocol": native.protocol,
        "range": any(rows != events for _, _, rows, events in traces) or snap.only is not None,
        "rows": {name: _rows(snap, name) for name in _MAKERS if name != "usage"},
        "stream_bytes": native.stream_bytes,
        "traces": max((device for device, _, _, _ in traces), default=-1) + 1,
        "truncated": None if native.truncation is None else str(native.truncation),
    }
