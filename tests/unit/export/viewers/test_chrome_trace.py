"""chrome_trace: output follows the documented trace-event format and contains the series."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.chrome_trace import render_chrome
from memreplay.export.viewers.tracks import trace_report
from tests import views
from tests.build import START_US, SnapshotBuilder
from tests.strategies import traces

# Written by hand from "Trace Event Format": the phases that we write, with their required fields.
NUMBER: dict[str, Any] = {"type": "number"}
EVENT = {
    "C": {
        "required": ["name", "pid", "ts", "args"],
        "properties": {"args": {"additionalProperties": NUMBER, "minProperties": 1}},
    },
    "X": {"required": ["name", "cat", "pid", "tid", "ts", "dur"]},
    "i": {
        "required": ["name", "pid", "tid", "ts", "s"],
        "properties": {"s": {"enum": ["g", "p", "t"]}},
    },
    "M": {
        "required": ["name", "pid", "args"],
        "properties": {
            "name": {"enum": ["process_name", "thread_name"]},
            "args": {"required": ["name"], "properties": {"name": {"type": "string"}}},
        },
    },
}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "ph": {"enum": list(EVENT)},
                    "name": {"type": "string"},
                    "cat": {"type": "string"},
                    "pid": {"type": "integer", "minimum": 1},
                    "tid": {"type": "integer"},
                    "ts": {"type": "number", "minimum": 0},
                    "dur": {"type": "number", "minimum": 0},
                    "args": {"type": "object"},
                },
                "allOf": [
                    {
                        "if": {"properties": {"ph": {"const": phase}}, "required": ["ph"]},
                        "then": rule,
                    }
                    for phase, rule in EVENT.items()
                ],
                "required": ["ph"],
            },
        },
    },
    "additionalProperties": False,
}


def loaded(snapshot: Any, **options: Any) -> Any:
    found = json.loads(b"".join(render_chrome(trace_report(views.opened(snapshot), **options))))
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.slow
@given(traces(), st.sampled_from((0, 2)))
def test_counters_match_the_series(snapshot: Any, points: int) -> None:
    found = loaded(snapshot, points=points, measures=["requested", "active"])
    snap = views.opened(snapshot)
    counters: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    for one in found["traceEvents"]:
        if one["ph"] == "C":
            key = one["pid"] - 1, one["name"].removesuffix(" (estimated)")
            counters[key].append((one["ts"], one["args"]["bytes"]))
    for device in snap.devices:
        for measure in ("requested", "active"):
            usage = snap.replay(device).measure(measure)
            rows = counters[device, measure]
            assert max(n for _, n in rows) == usage.peak.bytes
            assert (rows[0][1], rows[-1][1]) == (usage.start_bytes, usage.end_bytes)
            assert [at for at, _ in rows] == sorted(at for at, _ in rows)


def test_every_kind_of_track_is_written() -> None:
    found = loaded(views.everything(), measures=["requested"])
    assert found["otherData"]["origin_us"] == START_US - 1
    events = found["traceEvents"]
    names = [(one["name"], one["args"]["name"]) for one in events if one["ph"] == "M"]
    assert names == [
        ("process_name", "device 0, as process"),
        ("thread_name", "annotations"),
        ("thread_name", "annotations"),
        ("process_name", "device 1, as process"),
    ]
    slices = {one["name"]: one for one in events if one["ph"] == "X"}
    assert (slices["step#1"]["ts"], slices["step#1"]["dur"]) == (2, 4)
    assert slices["never;ends\n"]["args"] == {"end": "not in the file"}
    marks = [(one["name"], one["args"]) for one in events if one["ph"] == "i"]
    assert ("peak (requested)", {"event": 1, "bytes": 4700}) in marks
    assert ("out of memory", {"event": 5}) in marks


def test_names_are_written_unchanged() -> None:
    """Perfetto's reader takes an escaped letter in a name for six letters."""
    made = SnapshotBuilder().alloc(0x1000, 5)
    for stage in ("START", "END"):
        made.annotation("训练é", stage)
        made.annotation("no\udc80pair", stage)
    snapshot = made.free(0x1000, 5).finish_segments().build()
    text = b"".join(render_chrome(trace_report(views.opened(snapshot)))).decode()
    assert '"训练é"' in text
    assert '"no\\udc80pair"' in text
    assert {"训练é", "no\udc80pair"} <= {one["name"] for one in loaded(snapshot)["traceEvents"]}


def test_snapshot_without_devices_has_no_events() -> None:
    assert loaded({"segments": [], "device_traces": []})["traceEvents"] == []
