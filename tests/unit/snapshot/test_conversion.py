"""Converting a snapshot to another protocol or to JSON keeps its contents."""

from __future__ import annotations

import contextlib
import io
import json
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.export.lines import render_dump
from memreplay.snapshot.conversion import as_json, convert
from tests import build
from tests.build import SnapshotBuilder
from tests.examples import examples
from tests.pickle_ops import Ops
from tests.strategies import traces

WRITERS: dict[str, Any] = {
    "protocol 2": lambda s: build.dump(s, 2),
    "protocol 4": lambda s: build.dump(s, 4),
    "protocol 5": lambda s: build.dump(s, 5),
    "optimized": build.dump_optimized,
    "cpp": build.dump_cpp,
    "cpp, all memoised": lambda s: build.dump_cpp(s, memoise_all=True),
    "nothing shared": build.dump_unshared,
}


def converted(data: bytes, **options: Any) -> bytes:
    out = io.BytesIO()
    convert(data, out.write, **options)
    return out.getvalue()


def rows(data: bytes) -> list[bytes]:
    """Return everything that memreplay reads, without the header, which names the file's format."""
    return b"".join(render_dump(mr.open(data), "ndjson")).splitlines()[1:]


def lists(value: Any) -> Any:
    """JSON values: no tuples."""
    if isinstance(value, dict):
        return {key: lists(item) for key, item in value.items()}
    return [lists(item) for item in value] if isinstance(value, (list, tuple)) else value


def snapshot() -> dict[str, Any]:
    builder = SnapshotBuilder(user_metadata={"step": 1, "of": ["a", None, True, 1.5]})
    builder.alloc(1, 1 << 40, frames=[("f", "f.py", 1), ("g", "g.py", 2)], pool_id=(0, 1))
    builder.alloc(2**63 + 512, 5, stream=2**64 - 1, frames=[("f", "f.py", 1)])
    builder.free(1, 1 << 40, frames=[], forward_frames=["a\n", "b\n"], category="x")
    builder.top("unknown", {"a": [1, -1, 2**31, -(2**31), -(2**63), 2**63 - 1, 2**64 - 1]})
    builder.top("more", [1.5, -0.0, 1e300, True, None, 'é😀\ud800"\\\n', [], {}])
    return builder.finish_segments().build()


def test_protocol_5_becomes_4_by_default() -> None:
    # PyTorch's hosted viewer reads no protocol above 4.
    data = build.dump(snapshot(), 5)
    other = converted(data)
    assert other[:2] == b"\x80\x04"
    assert other == converted(data, protocol=4)
    assert pickle.loads(other) == pickle.loads(data)
    assert converted(data, protocol=5) == data
    for protocol in range(5):
        as_it_is = build.dump(snapshot(), protocol)
        assert converted(as_it_is) == as_it_is
    only_5 = pickle.dumps({"segments": [], "unknown": bytearray(b"x")}, 5)
    with pytest.raises(
        mr.SnapshotError, match=r"not possible in protocol 4.*--protocol 5 keeps it"
    ):
        converted(only_5)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=examples(20))
@given(made=traces(max_events=20))
def test_other_protocol_has_the_same_contents(writer: str, protocol: int, made: Any) -> None:
    data = WRITERS[writer](made)
    other = converted(data, protocol=protocol)
    assert pickle.loads(other) == pickle.loads(data)
    assert rows(other) == rows(data)
    assert other[:2] == bytes([0x80, protocol])
    highest = max(op.proto for op, _, _ in pickletools.genops(other))
    assert highest <= protocol
    # A round trip gives the same bytes, and so does converting twice.
    assert converted(other, protocol=protocol) == other
    assert converted(data, protocol=protocol) == other


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=examples(20))
@given(made=traces(max_events=20))
def test_json_round_trip(writer: str, made: Any) -> None:
    data = WRITERS[writer](made)
    text = converted(data, fmt="json")
    assert json.loads(text) == lists(pickle.loads(data))
    assert rows(text) == rows(data)
    for protocol in (2, 4, 5):
        back = converted(text, fmt="pickle", protocol=protocol)
        assert lists(pickle.loads(back)) == lists(pickle.loads(data))
        assert rows(back) == rows(data)
        assert converted(text, fmt="pickle", protocol=protocol) == back


def test_unknown_keys_are_kept() -> None:
    made = snapshot()
    for writer in ("protocol 2", "protocol 4", "optimized", "nothing shared"):
        data = WRITERS[writer](made)
        for protocol in (2, 4, 5):
            assert pickle.loads(converted(data, protocol=protocol)) == made
        text = converted(data, fmt="json")
        assert json.loads(text) == lists(made)
        assert lists(pickle.loads(converted(text, fmt="pickle"))) == lists(made)


def test_pool_ids_become_tuples_again() -> None:
    text = converted(build.dump(snapshot()), fmt="json")
    event = pickle.loads(converted(text, fmt="pickle"))["device_traces"][0][0]
    assert event["pool_id"] == (0, 1)
    assert isinstance(event["pool_id"], tuple)
    ids = b'[0, 1, 2], [], [0.5, 1], ["a", 1], [1, [2]], [-1, 18446744073709551615]'
    for each in ids.replace(b"], [", b"]|[").split(b"|"):
        odd = b'{"segments": [], "more": {"pool_id": %s}}' % each
        found = pickle.loads(converted(odd, fmt="pickle"))["more"]["pool_id"]
        assert lists(found) == json.loads(each)


def test_shared_frames_stay_shared() -> None:
    text = converted(build.dump(snapshot()), fmt="json")
    first, second = pickle.loads(converted(text, fmt="pickle"))["device_traces"][0][:2]
    assert first["frames"][0] is second["frames"][0]


def test_infinity_and_nan_are_kept_in_json() -> None:
    made = {"segments": [], "more": [math.inf, -math.inf, math.nan]}
    found = json.loads(converted(build.dump(made), fmt="json"))["more"]
    assert found[:2] == [math.inf, -math.inf]
    assert math.isnan(found[2])
    back = pickle.loads(converted(json.dumps(made).encode(), fmt="pickle"))["more"]
    assert back[:2] == [math.inf, -math.inf]


def test_file_in_the_requested_form_is_unchanged() -> None:
    data = build.dump(snapshot()) + b"what follows"
    assert converted(data) == data
    assert converted(data, protocol=4) == data
    text = json.dumps(snapshot()).encode() + b"\n"
    assert converted(text) == text
    assert converted(text, fmt="json") == text


TUPLES = [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [(1, 2)], (1, (2, 3)), {"a": ("b",)}]


@pytest.mark.parametrize("value", TUPLES)
def test_tuples_become_lists(value: Any) -> None:
    data = build.dump({"segments": [], "unknown": value, "after": [value, 1]})
    found = json.loads(converted(data, fmt="json"))
    assert found == {"segments": [], "unknown": lists(value), "after": [lists(value), 1]}


@pytest.mark.parametrize(
    "value, protocol, said",
    [
        (
            b"bytes",
            2,
            "not possible in protocol 2: a kind of value that the protocol doesn't support",
        ),
        ({1, 2}, 3, "not possible in protocol 3"),
        (bytearray(b"x"), 4, "not possible in protocol 4"),
    ],
)
def test_value_unsupported_by_a_protocol_is_refused(value: Any, protocol: int, said: str) -> None:
    data = pickle.dumps({"segments": [], "unknown": value}, 5)
    assert pickle.loads(converted(data, protocol=5))["unknown"] == value
    with pytest.raises(mr.SnapshotError, match=said):
        converted(data, protocol=protocol)


@pytest.mark.parametrize(
    "value, said",
    [
        (b"bytes", "a value that JSON doesn't support"),
        ({1: 2}, "a key that isn't a string"),
        (2**64, "an integer over 64 bits"),
        (-(2**63) - 1, "an integer over 64 bits"),
        (((1, 2), 3), "a tuple that begins with a tuple"),
    ],
)
def test_value_unsupported_by_json_is_refused(value: Any, said: str) -> None:
    data = pickle.dumps({"segments": [], "unknown": value}, 4)
    with pytest.raises(mr.SnapshotError, match=f"not possible in JSON: {said}"):
        converted(data, fmt="json")


def test_self_references_are_not_json() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    data = pickle.dumps({"segments": [], "unknown": cycle}, 4)
    with pytest.raises(mr.SnapshotError, match="a container that contains itself"):
        b"".join(as_json(data))


def test_few_bytes_do_not_expand_to_many() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().string("unknown")
    ops.empty_list().raw(b"\x94").mark().string("x" * 200).appends()
    deep = bytes(ops.setitems().stop())
    assert json.loads(converted(deep, fmt="json"))["unknown"] == ["x" * 200]
    nested: list[Any] = ["x" * 1000]
    for _ in range(40):
        nested = [nested, nested]
    data = pickle.dumps({"segments": [], "unknown": nested}, 4)
    with pytest.raises(mr.LimitError, match="100 times as long"):
        converted(data, fmt="json")


@pytest.mark.parametrize("options", [{}, {"protocol": 2}, {"fmt": "json"}])
def test_file_that_is_not_a_snapshot_is_refused(options: Any) -> None:
    whole = build.dump(snapshot())
    for data in (whole[:-20], b"text", pickle.dumps([1, 2]), b""):
        with pytest.raises(mr.SnapshotError):
            converted(data, **options)


@given(cut=st.integers(0, 2000), change=st.binary(min_size=1, max_size=4))
def test_any_bytes_convert_or_give_one_clear_error(cut: int, change: bytes) -> None:
    for data in (
        build.dump(snapshot()),
        build.dump_cpp(snapshot()),
        json.dumps(snapshot()).encode(),
    ):
        at = cut % len(data)
        broken = data[:at] + change + data[at + len(change) :]
        for options in ({"fmt": "json"}, {"fmt": "pickle", "protocol": 2}):
            with contextlib.suppress(mr.SnapshotError):
                assert converted(broken, **options)


@given(data=st.binary(max_size=60))
def test_any_opcodes_are_converted_or_refused(data: bytes) -> None:
    """The converter is called directly, without the reader's checks. It must never read or write
    out of bounds.
    """
    from memreplay.engine.write import _converting

    pickled = b"\x80\x04" + data + b"."
    with contextlib.suppress(mr.SnapshotError):
        b"".join(_converting.Spelled(pickled))
    with contextlib.suppress(mr.SnapshotError):
        _converting.Transcoder(2).feed(pickled)
    with contextlib.suppress(mr.SnapshotError):
        b"".join(_converting.Pickled(data, 4))


def test_real_files_convert_without_loss(corpus_file: Path) -> None:
    data = corpus_file.read_bytes()
    # Converting a large file takes several seconds, so one protocol is enough.
    protocols = (2, 4, 5) if len(data) <= 5_000_000 else (2,)
    want, want_rows = pickle.loads(data), rows(data)
    for protocol in protocols:
        other = converted(data, protocol=protocol)
        assert pickle.loads(other) == want
        assert rows(other) == want_rows
    text = converted(data, fmt="json")
    assert rows(text) == want_rows
    back = converted(text, fmt="pickle")
    assert lists(pickle.loads(back)) == lists(want)
    assert rows(back) == want_rows


def nested(depth: int) -> bytes:
    """Return a snapshot with this many nested lists."""
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().string("unknown")
    return bytes(ops.raw(b"]" * depth + b"a" * (depth - 1)).setitems().stop())


def refused(data: bytes, **options: Any) -> str:
    """Check that nothing was written, and return the error's text."""
    out = io.BytesIO()
    with pytest.raises(mr.SnapshotError) as caught:
        convert(data, out.write, **options)
    assert out.getvalue() == b""
    return str(caught.value)


def test_too_deep_json_is_not_written() -> None:
    # The dict and 999 lists can be read, but not one more. In a pickle, lists don't count as
    # nesting.
    assert rows(converted(nested(999), fmt="json")) == []
    told = refused(nested(1000), fmt="json")
    assert "the resulting JSON can't be read: nesting_depth is 1001" in told
    assert "memreplay export" in told


def test_values_that_json_would_change_are_not_written() -> None:
    # For an unusual tuple, metadata has null, but JSON has a list.
    event = {"action": "alloc", "addr": 1, "user_metadata": ("a", ["b"])}
    told = refused(build.dump({"segments": [], "device_traces": [[event]]}), fmt="json")
    assert "the resulting JSON isn't the same snapshot" in told


@pytest.mark.parametrize("form", [{"fmt": "json"}, {"fmt": "pickle", "protocol": 2}, {}])
def test_overflowing_sizes_are_refused(form: Any) -> None:
    segments = [
        {
            "address": 4096 * i,
            "total_size": 2**61,
            "blocks": [{"size": 2**61, "state": "active_allocated"}],
        }
        for i in range(9)
    ]
    with pytest.raises(mr.SnapshotError, match="the sizes of device 0"):
        convert(build.dump({"segments": segments}), io.BytesIO().write, **form)


def test_json_becomes_a_pickle_even_if_deeply_nested() -> None:
    text = json.dumps(snapshot()).encode()
    assert rows(converted(text, fmt="pickle")) == rows(text)
    deep = b'{"segments": [], "unknown": %s}' % (b"[" * 999 + b"]" * 999)
    assert rows(converted(deep, fmt="pickle")) == []
