"""Tests of commands/export/lines.py: lines of text and JSON, including their schema."""

from __future__ import annotations

import json

import jsonschema
import pytest

import memreplay as mr
from ci.schemas import all_schemas
from memreplay.commands.export import lines as dump
from memreplay.commands.export.lines import render_dump
from tests import build
from tests.build import Snapshot, SnapshotBuilder
from tests.dumped import expected_tables, read_dump

STACK = [("naïve 训练", "/data/ü.py", 7), ("main", "a.py", 1)]


def small() -> Snapshot:
    """Build a row of each kind, with and without its optional fields."""
    builder = SnapshotBuilder(devices=2, fx=True)
    builder.alloc(0x7F00_0000, 512, frames=STACK, pool_id=(0, 1), compile_context="0/1")
    builder.free_requested(0x7F00_0000, 512, frames=STACK, user_metadata={"né": ['"', 1.5, None]})
    builder.oom(1 << 40, device_free=99, frames=STACK[1:]).drop("time_us")
    builder.event("defragment\x1b", device=1, stream=2**63)
    block = builder.block(0x7F00_0000, 512, 500, frames=STACK)
    builder.segment(0x7F00_0000, 2**21, pool=(3, 0), is_expandable=True, blocks=[block])
    old = builder.legacy_block(512, None, "inactive", [(0, 500, None)])
    builder.segment(0x9000, 512, 1, legacy=True, blocks=[old])
    builder.annotation("step", "START")
    builder.settings(roundup=[1, float("inf")], expandable_segments=True)
    builder.top("trace_alloc_overflowed", True).top("trace_alloc_max_entries", 100)
    builder.top("memreplay", {"version": 1, "cards": [{"total_bytes": 1 << 34}], "rank": None})
    return builder.build()


TEXT = """\
snapshot file="<bytes>" file_bytes=N stream_bytes=N container="pickle" protocol=4 truncated=false \
allocator_settings={"roundup": [1, null], "expandable_segments": true} \
trace_alloc_overflowed=true trace_alloc_max_entries=100 \
memreplay={"version": 1, "cards": [{"total_bytes": 17179869184}], "rank": null}
segment 0 device=0 address=0x7f000000 total_size=2097152 allocated_size=512 active_size=512 \
requested_size=500 stream=0 segment_type="large" segment_pool_id=[3,0] is_expandable=true stack=0
segment 1 device=1 address=0x9000 total_size=512 allocated_size=0 active_size=0 \
requested_size=0 stream=0 segment_type="large" is_expandable=false stack=0
block 0 segment=0 address=0x7f000000 size=512 requested_size=500 state=active_allocated stack=1
  na\\u00efve \\u8bad\\u7ec3 /data/\\u00fc.py:7
  main a.py:1
block 1 segment=1 address=0x9000 address_given=false size=512 real_size=500 state=inactive stack=0
trace 0 device=0 events=3
event 0 device=0 action=alloc addr=0x7f000000 size=512 stream=0 time_us=1700000000000000 \
stack=1 compile_context="0/1" pool_id=[0,1]
event 1 device=0 action=free_requested addr=0x7f000000 size=512 stream=0 \
time_us=1700000000000001 stack=1 user_metadata={"n\\u00e9": ["\\"", 1.5, null]}
event 2 device=0 action=oom addr=0x0 size=1099511627776 stream=0 stack=2 device_free=99
  main a.py:1
trace 1 device=1 events=1
event 0 device=1 action="defragment\\u001b" addr=0x0 size=0 stream=9223372036854775808 \
time_us=1700000000000003 stack=0
annotation 0 device=0 name="step" stage="START" time_us=1700000000000004
"""


def test_text_has_a_line_per_row() -> None:
    data = build.dump(small())
    text = b"".join(render_dump(mr.open(data), "txt")).decode("ascii")
    assert text == TEXT.replace("bytes=N", f"bytes={len(data)}")


def test_ndjson_reads_back() -> None:
    data = build.dump(small())
    found = read_dump(render_dump(mr.open(data), "ndjson"))
    assert found.tables == expected_tables(small())
    assert found.header == {
        "schema": "memreplay.export/1",
        "file": "<bytes>",
        "file_bytes": len(data),
        "stream_bytes": len(data),
        "container": "pickle",
        "protocol": 4,
        "truncated": False,
        "allocator_settings": {"roundup": [1, None], "expandable_segments": True},
        "trace_alloc_overflowed": True,
        "trace_alloc_max_entries": 100,
        "memreplay": {"version": 1, "cards": [{"total_bytes": 1 << 34}], "rank": None},
    }


def test_schema_describes_all_lines() -> None:
    schema = all_schemas()["export-1.json"]
    jsonschema.Draft202012Validator.check_schema(schema)
    rules = {
        rule["properties"].get("table", {}).get("const", "header"): rule
        for rule in schema["$defs"].values()
    }
    used: dict[str, set[str]] = {}
    data = build.dump(small())
    cuts = (mr.open(data[:n], salvage=True) for n in range(len(data) - 1, 0, -1))
    cut = next(snap for snap in cuts if snap.unknown_devices)
    for snap in (mr.open(data), mr.open(data, start=1, stop=2), cut):
        for line in b"".join(render_dump(snap, "ndjson")).splitlines():
            row = json.loads(line)
            name = row.get("table", "header")
            jsonschema.Draft202012Validator(schema).validate(row)
            rule = rules[name]
            assert set(rule["required"]) <= set(row) <= set(rule["properties"])
            used.setdefault(name, set()).update(row)
    assert used == {name: set(rule["properties"]) for name, rule in rules.items()}


def test_range_keeps_event_numbers() -> None:
    part = mr.open(build.dump(small()), start=1, stop=2)
    text = b"".join(render_dump(part, "txt")).decode()
    assert "trace 0 device=0 events=3 first_event=1 events_read=1\nevent 1 device=0" in text
    assert text.count("\nevent ") == 1


def test_salvaged_file_is_marked() -> None:
    data = build.dump(small())
    header = next(iter(render_dump(mr.open(data[:-40], salvage=True), "ndjson")))
    assert json.loads(header)["truncated"] is True


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "FREE_BYTES", 1_000)
    builder = SnapshotBuilder(user_metadata="x" * 100_000)
    for _ in range(300):
        builder.alloc(1, 1)
    snap = mr.open(build.dump(builder.build()))
    written: list[int] = []
    with pytest.raises(mr.LimitError, match="over 100 times as long as the snapshot; export"):
        written.extend(len(lines) for lines in render_dump(snap, "ndjson"))
    assert sum(written) < 100 * snap.stream_bytes
