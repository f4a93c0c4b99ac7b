"""A random snapshot's dump has everything that the snapshot has, field by field."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.export.lines import render_dump
from tests import build
from tests.dumped import expected_tables, read_dump
from tests.pickle_ops import Ops
from tests.strategies import traces

WRITERS: dict[str, Any] = {
    "protocol 0": lambda s: build.dump(s, 0),
    "protocol 4": lambda s: build.dump(s, 4),
    "cpp": build.dump_cpp,
    "nothing shared": build.dump_unshared,
    "json": lambda s: json.dumps(s).encode(),
    "gzip": lambda s: gzip.compress(build.dump(s, 4)),
}


@pytest.mark.parametrize("writer", WRITERS)
@given(snapshot=traces())
def test_dump_has_every_field(writer: str, snapshot: Any) -> None:
    snap = mr.open(WRITERS[writer](snapshot))
    dump = read_dump(render_dump(snap, "ndjson"))
    assert dump.tables == expected_tables(snapshot)
    settings = snapshot.get("allocator_settings")
    assert dump.header.get("allocator_settings") == settings
    # Each stack and frame appears once, and only if a row uses it.
    assert len(dump.stacks) <= len(snap.stacks)


@given(snapshot=traces(max_devices=3, max_events=30), data=st.data())
def test_dump_of_a_range_has_only_its_events(snapshot: Any, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 32))
    last = data.draw(st.integers(first, 34))
    part = mr.open(build.dump(snapshot), start=first, stop=last)
    found = read_dump(render_dump(part, "ndjson")).tables
    want = expected_tables(snapshot)
    assert found["events"] == [row for row in want["events"] if first <= row["event"] < last]
    assert [(t["device"], t["events"]) for t in found["traces"]] == [
        (t["device"], t["events"]) for t in want["traces"]
    ]
    assert found["blocks"] == want["blocks"]


@given(snapshot=traces(max_devices=3), data=st.data())
def test_dump_of_one_device_has_only_its_rows(snapshot: Any, data: st.DataObject) -> None:
    there = mr.open(build.dump(snapshot)).devices
    if not there:
        return
    device = data.draw(st.sampled_from(there))
    snap = mr.open(build.dump(snapshot), device=device)
    found = read_dump(render_dump(snap, "ndjson")).tables
    want = expected_tables(snapshot)
    of_device = {s["segment"] for s in want["segments"] if s["device"] == device}
    for table in ("segments", "events", "annotations"):
        assert found[table] == [row for row in want[table] if row["device"] == device], table
    assert found["blocks"] == [row for row in want["blocks"] if row["segment"] in of_device]


def labelled(text: bytes) -> mr.Snapshot:
    """Return a snapshot whose only event has these bytes as action and metadata."""
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    ops.string("device_traces").empty_list().empty_list().mark().empty_dict().mark()
    for key in ("action", "compile_context"):
        ops.string(key).raw(b"X" + len(text).to_bytes(4, "little") + text)
    return mr.open(bytes(ops.setitems().appends().append().setitems().stop()))


# Surrogates; encoded characters that are cut off, overlong or beyond Unicode's last; and characters
# that JSON escapes.
PIECES = (
    *(b"\xed\xa0\x80", b"\xe2\x82", b"\xf0\x90", b"\xf4\x90", b"\xe0\x80", b"\xc1", b"\x80"),
    *(b"\xff", b'"', b"\\", b"\x00", b"\n", b"\x7f", b"a", "é".encode(), "😀".encode()),
)
NASTY = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=8).map(lambda text: text.encode()),
    st.lists(
        st.sampled_from(PIECES),
        max_size=6,
    ).map(b"".join),
)


@given(text=NASTY)
def test_dump_decodes_any_bytes_as_the_library_does(text: bytes) -> None:
    snap = labelled(text)
    (event,) = read_dump(render_dump(snap, "ndjson")).tables["events"]
    assert event["action"] == snap.action_name(int(snap.events.action[0]))
    assert event["compile_context"] == snap.metadata(int(snap.events.compile_context[0]))
    plain = b"".join(render_dump(snap, "txt"))
    assert all(byte == 10 or 32 <= byte < 127 for byte in plain)
    assert len(plain.splitlines()) == 3
