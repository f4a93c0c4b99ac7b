"""Read the output of `memreplay export --format ndjson`, and compute the output expected for a
snapshot.

Neither part shares code with memreplay: reading uses `json.loads`, and the expected output comes
from the unpickled dict.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.compare import canonical
from tests.oracle import line_of

Row = dict[str, Any]
TABLES = ("segments", "blocks", "traces", "events", "annotations")


class Dumped(NamedTuple):
    """A dump with its stacks spelled out: a row's `stack` is a list of frames."""

    header: Row
    tables: dict[str, list[Row]]
    stacks: dict[int, list[Row]]


def read_dump(chunks: Iterable[bytes]) -> Dumped:
    """Return the header and each table's rows in order. Check that rows refer only to earlier
    rows.
    """
    header, *rows = map(json.loads, b"".join(chunks).decode("ascii").splitlines())
    tables: dict[str, list[Row]] = {name: [] for name in TABLES}
    frames: dict[int, Row] = {}
    stacks: dict[int, list[Row]] = {0: []}
    order: list[str] = []
    for row in rows:
        table = row.pop("table")
        if table == "frames":
            number = row.pop("frame")
            assert number not in frames
            frames[number] = row
        elif table == "stacks":
            assert row["stack"] not in stacks
            stacks[row.pop("stack")] = [frames[number] for number in row.pop("frames")]
            assert not row
        else:
            if "stack" in row:
                row["stack"] = stacks[row["stack"]]
            tables[table].append(row)
            order.append(table)
    kinds = [kind for kind in order if kind not in ("traces", "events")]
    assert kinds == sorted(kinds, key=TABLES.index)
    return Dumped(header, tables, stacks)


def expected_tables(snapshot: Any) -> dict[str, list[Row]]:
    """Return the rows that a dump of this plain snapshot must have."""
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot}
    traces = snapshot.get("device_traces") or []
    segments = snapshot.get("segments") or []
    return {
        "segments": [_segment(number, segment) for number, segment in enumerate(segments)],
        "blocks": _blocks(segments),
        "traces": [
            {"trace": device, "device": device, "events": len(trace)}
            for device, trace in enumerate(traces)
        ],
        "events": [
            _event(device, number, event)
            for device, trace in enumerate(traces)
            for number, event in enumerate(trace)
        ],
        "annotations": [
            {"annotation": number, **note}
            for number, note in enumerate(snapshot.get("external_annotations") or [])
        ],
    }


def _segment(number: int, segment: Row) -> Row:
    row = {
        "segment": number,
        "device": segment.get("device", 0),
        "address": _unsigned(segment["address"]),
        "total_size": segment["total_size"],
        "allocated_size": segment.get("allocated_size", 0),
        "active_size": segment.get("active_size", 0),
        "stream": _unsigned(segment.get("stream", 0)),
        "segment_type": segment.get("segment_type", ""),
        "is_expandable": bool(segment.get("is_expandable", False)),
        "stack": _stack(segment),
    }
    if "requested_size" in segment:
        row["requested_size"] = segment["requested_size"]
    if "segment_pool_id" in segment:
        row["segment_pool_id"] = list(segment["segment_pool_id"])
    return row


def _blocks(segments: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for number, segment in enumerate(segments):
        running = segment["address"]
        for block in segment.get("blocks", []):
            history = block.get("history") or [{}]
            row = {
                "block": len(rows),
                "segment": number,
                "address": _unsigned(block.get("address", running)),
                "size": block["size"],
                "state": block["state"],
                "stack": _stack(block if "frames" in block else history[0]),
            }
            if "address" not in block:
                row["address_given"] = False
            if "requested_size" in block:
                row["requested_size"] = block["requested_size"]
            elif "real_size" in history[0]:
                row["real_size"] = history[0]["real_size"]
            running += block["size"]
            rows.append(row)
    return rows


def _event(device: int, number: int, event: Row) -> Row:
    row = {
        "event": number,
        "device": device,
        "addr": _unsigned(event.get("addr", 0)),
        "size": event.get("size", 0),
        "stream": _unsigned(event.get("stream", 0)),
        "stack": _stack(event),
    }
    for key in ("action", "time_us", "compile_context", "user_metadata", "device_free", "pool_id"):
        if event.get(key) is not None:
            row[key] = canonical(event[key])
    return row


def _stack(holder: Row) -> list[Row]:
    fx = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
    return [
        {
            "name": frame.get("name", ""),
            "filename": frame.get("filename", ""),
            "line": line_of(frame),
            **{key: frame[key] for key in fx if frame.get(key)},
        }
        for frame in holder.get("frames") or []
    ]


def _unsigned(value: int) -> int:
    return value & (2**64 - 1)
