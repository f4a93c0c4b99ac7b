"""A second reader, in Python: turn plain data into a snapshot as docs/format.md specifies.

It takes pickle.load's result, and keeps only valid values under known keys, for the oracles. For
anything that the page calls an error, it raises `WrongError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

MOST_BYTES = 2**62 - 1
DEVICES = 1024
DEEPEST = 31  # metadata nested deeper than this is left out
FX = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
STATES = ("inactive", "active_allocated", "active_pending_free", "active_awaiting_free")


class Dropped:
    """Metadata nested so deeply that it may be left out."""


class Tuple(list[Any]):
    """A tuple in metadata. It may become null, because the page says that some tuples are
    dropped.
    """


class WrongError(Exception):
    """A value that must be rejected according to the page."""


def snapshot_of(found: Any) -> Any:
    """Return the snapshot that this data represents."""
    if type(found) is list:
        return [segment_of(one) for one in found]
    if type(found) is not dict or not ("segments" in found or "device_traces" in found):
        raise WrongError("no snapshot")
    out: dict[str, Any] = {}
    if "segments" in found:
        out["segments"] = [segment_of(one) for one in a_list(found["segments"])]
    if "device_traces" in found:
        traces = a_list(found["device_traces"])
        out["device_traces"] = [[event_of(one) for one in a_list(trace)] for trace in traces]
    notes = found.get("external_annotations")
    if notes is not None:
        out["external_annotations"] = [annotation_of(one) for one in a_list(notes)]
    for key in ("allocator_settings", "trace_alloc_overflowed", "trace_alloc_max_entries"):
        if key in found:
            out[key] = kept(found[key])
    return out


# ---- values --------------------------------------------------------------------------------------


def a_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise WrongError("no list")
    return value


def a_dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise WrongError("no dict")
    return value


def whole(value: Any, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """Return a whole number; as in Python, a bool counts as one."""
    if not isinstance(value, int) or not low <= value <= high:
        raise WrongError("no number that fits")
    return int(value)


def size(value: Any) -> int:
    return whole(value, 0, MOST_BYTES)


def address(value: Any) -> int:
    return 0 if value is None else whole(value, -(2**63), 2**64 - 1)


def device(value: Any) -> int:
    return whole(value, -1, DEVICES - 1)


def time(value: Any) -> int | None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WrongError("no time")
        value = math.floor(value)
    return whole(value, -(2**63) + 1)


def time_or_none(value: Any) -> int | None:
    return None if value is None else time(value)


def text(value: Any) -> str:
    """Return a string; None becomes the empty string, because every row has a name."""
    if value is None:
        return ""
    if type(value) is not str:
        raise WrongError("no text")
    return value


def pool(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if type(value) is int:
        return 0, whole(value)
    if type(value) not in (list, tuple) or len(value) != 2:
        raise WrongError("no pool")
    return tuple(whole(one) for one in value)


def frames(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if type(value) not in (list, tuple):
        raise WrongError("no frames")
    found = []
    for one in value:
        frame = a_dict(one)
        line = frame.get("line")
        found.append(
            {
                "name": text(frame.get("name")),
                "filename": text(frame.get("filename")),
                "line": 0 if line in (None, -1, 2**64 - 1) else whole(line),
                "fx": tuple(text(frame.get(key)) for key in FX),
            }
        )
    return found


def kept(value: Any, depth: int = 0) -> Any:
    """Return data as JSON; values that JSON doesn't have become null, even in a dict's keys."""
    if depth > DEEPEST:
        return Dropped
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else None
    if isinstance(value, tuple):
        return Tuple([kept(one, depth + 1) for one in value])
    if isinstance(value, list):
        return [kept(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {spelled(key): kept(one, depth + 1) for key, one in value.items()}
    return None


def spelled(key: Any) -> str:
    if isinstance(key, str):
        return key
    if type(key) is tuple and len(key) == 2 and all(type(one) is int for one in key):
        return json.dumps(key)
    return json.dumps(kept(key)) if not isinstance(key, tuple) else "null"


# ---- rows ----------------------------------------------------------------------------------------

Fields = dict[str, Callable[[Any], Any]]

EVENT: Fields = {
    "action": text,
    "addr": address,
    "size": size,
    "stream": address,
    "time_us": time_or_none,
    "frames": frames,
    "compile_context": kept,
    "user_metadata": kept,
    "pool_id": pool,
    "device_free": whole,
}
SEGMENT: Fields = {
    "device": device,
    "address": address,
    "total_size": size,
    "allocated_size": size,
    "active_size": size,
    "requested_size": size,
    "stream": address,
    "segment_type": text,
    "segment_pool_id": pool,
    "is_expandable": whole,
    "frames": frames,
}
BLOCK: Fields = {
    "address": address,
    "size": size,
    "requested_size": size,
    "state": text,
    "frames": frames,
}
HISTORY: Fields = {"real_size": size, "frames": frames}
ANNOTATION: Fields = {"name": text, "stage": text, "device": device, "time_us": time}


def row(value: Any, fields: Fields) -> dict[str, Any]:
    found = a_dict(value)
    return {key: read(found[key]) for key, read in fields.items() if key in found}


def event_of(value: Any) -> dict[str, Any]:
    return row(value, EVENT)


def annotation_of(value: Any) -> dict[str, Any]:
    return row(value, ANNOTATION)


def segment_of(value: Any) -> dict[str, Any]:
    found = row(value, SEGMENT)
    if "address" not in found or "total_size" not in found:
        raise WrongError("a segment without its place")
    found["blocks"] = []
    at = address(value["address"]) & (2**64 - 1)
    for one in a_list(value.get("blocks", [])):
        block = block_of(one)
        # The end of the previous block, or the segment's address.
        block.setdefault("address", at)
        at = ((block["address"] & (2**64 - 1)) + block.get("size", 0)) & (2**64 - 1)
        found["blocks"].append(block)
    return found


def block_of(value: Any) -> dict[str, Any]:
    found = row(value, BLOCK)
    if found.get("state") not in STATES:
        found["state"] = "active_allocated"  # any state that isn't free or about to be freed
    history = value.get("history")
    if history is not None:
        entries = a_list(history)
        found["history"] = [row(entries[0], HISTORY)] if entries else []
    return found
