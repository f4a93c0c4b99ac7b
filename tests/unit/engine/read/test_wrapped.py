"""wrapped: a snapshot inside other data, or one of several, reads like a plain one."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.trust.trust import REMARKS, device_verdict
from memreplay.errors import SnapshotError, TruncatedError, UsageError
from tests import bad_files, build, oracle
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.strategies import traces


def snapshot(n: int) -> build.Snapshot:
    builder = SnapshotBuilder()
    for i in range(n):
        builder.alloc(4096 * (i + 1), 100 + i, frames=[("f", "a.py", i)])
    builder.segment_alloc(2**40, 2**21)
    builder.annotation("x", "START").settings(expandable_segments=True)
    return builder.finish_segments().build()


A, B = snapshot(3), snapshot(5)
MORE = "more_in_file"
FORMS: dict[str, Callable[[Any], bytes]] = {
    "protocol 0": lambda value: build.dump(value, 0),
    "protocol 1": lambda value: build.dump(value, 1),
    "protocol 2": lambda value: build.dump(value, 2),
    "protocol 4": build.dump,
    "C++": build.dump_cpp,
    "JSON": lambda value: json.dumps(value).encode(),
}
ONE = {
    "a dict": {"rank": 0, "snapshot": A},
    "its only key": {"snapshot": A},
    "deeper": {"run": {"name": "x", "steps": [{"step": 3, "snapshot": A}]}},
    "a list": [A],
    "a list of dicts": [{"rank": 0, "snapshot": A}],
    "beside settings": {"config": {"a": [1, {"b": 2}]}, "snapshot": A, "done": True},
}
SEVERAL: dict[str, tuple[Any, str]] = {
    "a dict": ({"before": A, "after": B}, ": 1 'before', 2 'after'"),
    "a list": ([A, B], ""),
    "by rank": ([{"rank": 0, "snapshot": A}, {"rank": 1, "snapshot": B}], ": 1 'snapshot', 2 "),
    "in a dict of lists": ({"all": [A, B], "n": 2}, ""),
}


def tables(data: Any, **options: Any) -> list[Any]:
    """Return everything read from a file, except its format."""
    from memreplay.engine.write import _dump

    snap = mr.open(data, **options)
    rows = b"".join(_dump.dump(snap.native, True))
    return [rows, snap.settings, snap.annotation_count, snap.events_by_device]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ONE)
def test_wrapped_snapshot_equals_the_plain_one(name: str, form: str) -> None:
    data = FORMS[form](ONE[name])
    plain = tables(FORMS[form](A))
    assert tables(data)[1:] == plain[1:]
    assert mr.open(data).replay().peak.bytes == mr.open(build.dump(A)).replay().peak.bytes
    assert tables(data, pick=1)[1:] == plain[1:]
    with pytest.raises(SnapshotError, match="the file has no snapshot 2: it has 1"):
        mr.open(data, pick=2)


@pytest.mark.parametrize("value", [(7, A), ("step", {"a": 1}, A), (A, None), (A,)])
def test_snapshot_in_a_tuple_is_read(value: Any) -> None:
    for protocol in (2, 4):
        assert mr.open(build.dump(value, protocol)).replay().peak.bytes == 303


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SEVERAL)
def test_one_of_several_snapshots_must_be_chosen(name: str, form: str) -> None:
    value, said = SEVERAL[name]
    data = FORMS[form](value)
    with pytest.raises(SnapshotError) as error:
        mr.open(data)
    assert f"2 snapshots in one file{said}" in str(error.value)
    assert "choose one: --pick 1, …, --pick 2" in str(error.value)
    assert tables(data, pick=1)[1:] == tables(FORMS[form](A))[1:]
    assert tables(data, pick=2)[1:] == tables(FORMS[form](B))[1:]
    with pytest.raises(SnapshotError, match="the file has no snapshot 3: it has 2"):
        mr.open(data, pick=3)
    with pytest.raises(UsageError, match="numbers start at 1"):
        mr.open(data, pick=0)


def test_snapshots_in_a_dict_of_ranks_are_named_by_rank() -> None:
    for protocol in (2, 4):
        data = build.dump({0: A, 1: B}, protocol)
        with pytest.raises(SnapshotError, match="2 snapshots in one file: 1 '0', 2 '1'"):
            mr.open(data)
        assert mr.open(data, pick=2).events_by_device == {0: 6}


@pytest.mark.parametrize(
    "between",
    [b"", b"\0", b"\0" * 3_000_000, b"\n", b"\r\n \t\0"],
    ids=["nothing", "a zero", "zeros", "a newline", "white space"],
)
@pytest.mark.parametrize("protocol", range(6))
def test_one_of_two_concatenated_pickles_must_be_chosen(protocol: int, between: bytes) -> None:
    first, second = build.dump(A, protocol), build.dump(B, protocol)
    data = first + between + second
    for packed in (data, gzip.compress(data)):
        with pytest.raises(SnapshotError, match="2 snapshots in one file; choose one"):
            mr.open(packed)
        one, other = mr.open(packed, pick=1), mr.open(packed, pick=2)
        assert (one.events_by_device, one.stream_bytes) == ({0: 4}, len(first))
        assert (other.events_by_device, other.stream_bytes) == ({0: 6}, len(second))
        assert other.protocol == protocol


def test_one_of_a_pages_files_must_be_chosen() -> None:
    data = bad_files.viewer_page(build.dump(A), build.dump(B))
    with pytest.raises(SnapshotError, match="2 snapshots in one file"):
        mr.open(data)
    assert mr.open(data, pick=2).events_by_device == {0: 6}


@pytest.mark.parametrize("first", [{"rank": 3}, 7, None, "a header", [1, 2], (1, 2)])
def test_other_data_before_a_snapshot_is_skipped(first: Any) -> None:
    data = pickle.dumps(first, 4) + build.dump(A)
    if first == [1, 2]:  # mistaken for an old file's segments
        with pytest.raises(SnapshotError):
            mr.open(data)
    else:
        assert mr.open(data).events_by_device == {0: 4}


@pytest.mark.parametrize(
    "after",
    [
        b"\x80\x04N.",
        b"junk",
        b"\x80\x04junk",
        b"\0" * 50,
        bad_files.calls_function(),
        b"\x80",
        b"}q\0.",
        b"\n",
        b"\0\n\r\n  \t\0",
        b"\n" * 3_000_000,
        b"(dp0\n.",
        b"(lp0\nI1\na.",
        b"(junk",
        b"((((((((",
        b"}",
        b"]]]}}}(((",
        b"{}",
        b"[1, 2]",
        b"-----END-----",
        build.dump({"rank": 3}, 0),
        build.dump([1, 2, {"segments": 3}], 1),
        build.dump((1, 2), 0),
        build.dump("text", 0),
    ],
    ids=lambda after: after[:20].hex(),
)
def test_data_after_the_snapshot_is_ignored_with_a_note(after: bytes) -> None:
    snap = mr.open(build.dump(A) + after)
    assert snap.events_by_device == {0: 4}
    assert snap.truncation is None
    other = bool(after.strip(b"\0\t\n\r "))  # zeros and white space are ignored
    assert snap.has_other_data == snap.is_followed_by_data == other
    said = device_verdict(snap, snap.replay())
    plain = mr.open(build.dump(A))
    assert set(said.reasons) - set(device_verdict(plain, plain.replay()).reasons) == (
        {MORE} if other else set()
    )
    assert MORE in REMARKS


def test_no_note_if_the_file_holds_only_a_snapshot() -> None:
    alone = [*(build.dump(A, protocol) for protocol in range(6)), json.dumps(A).encode() + b"\n"]
    for data in alone:
        snap = mr.open(data)
        assert not snap.is_followed_by_data
        assert not snap.has_other_data
    # The surrounding data was read, and choosing one of several reports the others.
    for data, pick in ((build.dump({"a": A}), None), (build.dump(A) + build.dump(B), 2)):
        snap = mr.open(data, pick=pick)
        assert not snap.is_followed_by_data
        assert snap.has_other_data
    snap = mr.open(build.dump({"rank": 0}) + build.dump(A))
    assert snap.is_followed_by_data


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("second", range(6))
def test_concatenated_pickles_may_have_two_protocols(first: int, second: int) -> None:
    data = build.dump(A, first) + build.dump(B, second)
    with pytest.raises(SnapshotError, match="2 snapshots in one file; choose one"):
        mr.open(data)
    assert mr.open(data, pick=2).events_by_device == {0: 6}
    assert mr.open(data, pick=2).protocol == second


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("wrapped", [(B,), [B], {"rank": 1, "snapshot": B}, {"snapshot": B}])
def test_wrapped_snapshot_may_follow_another(wrapped: Any, protocol: int) -> None:
    data = build.dump(A) + build.dump(wrapped, protocol)
    with pytest.raises(SnapshotError, match="2 snapshots in one file"):
        mr.open(data)
    assert mr.open(data, pick=2).events_by_device == {0: 6}


SINGLE: dict[str, Any] = {
    "segments": {"extra": {"segments": B["segments"]}},
    "no segments": {"extra": {"segments": []}},
    "device_traces": {"extra": {"device_traces": B["device_traces"]}},
    "external_annotations": {"extra": {"external_annotations": [{"name": "x"}]}},
    "deeper": {"extra": {"snapshot": {"segments": B["segments"]}}},
    "with more": {"extra": {"a": 1, "segments": B["segments"]}},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SINGLE)
def test_partial_dict_after_a_snapshot_is_not_a_second_snapshot(name: str, form: str) -> None:
    assert tables(FORMS[form]({**A, **SINGLE[name]}))[1:] == tables(FORMS[form](A))[1:]


@pytest.mark.parametrize("form", FORMS)
def test_partial_dict_inside_a_segment_is_not_a_second_snapshot(form: str) -> None:
    first, *rest = A["segments"]
    value = {**A, "segments": [{**first, "extra": {"blocks": [{"size": 1}]}}, *rest]}
    assert tables(FORMS[form](value))[1:] == tables(FORMS[form](A))[1:]


@pytest.mark.parametrize("protocol", [1, 2, 4])
@pytest.mark.parametrize("name", ["segments", "device_traces"])
def test_partial_dict_before_a_snapshot_is_an_error_with_advice(name: str, protocol: int) -> None:
    with pytest.raises(SnapshotError) as error:
        mr.open(build.dump({**SINGLE[name], **A}, protocol))
    said = str(error.value)
    assert "unknown data with only a key of the snapshot's own" in said
    assert "must come after the snapshot's own keys, or have a second key" in said
    assert "\n" not in said


def test_truncated_second_snapshot_is_not_ignored() -> None:
    first, second = build.dump(A), build.dump(B)
    cut = first + second[: len(second) // 2]
    with pytest.raises(SnapshotError, match="2 snapshots in one file"):
        mr.open(cut)
    assert mr.open(cut, pick=1).events_by_device == {0: 4}
    with pytest.raises(TruncatedError):
        mr.open(cut, pick=2)
    assert mr.open(cut, pick=2, salvage=True).truncation is not None


def test_any_of_many_snapshots_can_be_picked() -> None:
    data = build.dump(A) * 300 + build.dump(B)
    with pytest.raises(SnapshotError, match="301 snapshots in one file"):
        mr.open(data)
    assert mr.open(data, pick=301).events_by_device == {0: 6}
    # A shared object counts only once.
    listed = build.dump([A] * 1_500 + [B])
    assert mr.open(listed, pick=2).events_by_device == {0: 6}
    apart = build.dump_unshared([A] * 1_500 + [B])
    assert mr.open(apart, pick=1_501).events_by_device == {0: 6}


@pytest.mark.parametrize("form", FORMS)
def test_nested_snapshot_is_unknown_data(form: str) -> None:
    data = FORMS[form]({**A, "older": {"x": 1, **B}, "all": [{"x": 1, **B}]})
    assert tables(data)[1:] == tables(FORMS[form](A))[1:]


@pytest.mark.parametrize("form", FORMS)
def test_snapshot_nested_in_another_is_never_counted(form: str) -> None:
    c = snapshot(7)
    data = FORMS[form]([{**A, "older": {"x": 1, **B}, "all": [{"x": 1, **B}]}, c])
    assert tables(data, pick=1)[1:] == tables(FORMS[form](A))[1:]
    assert tables(data, pick=2)[1:] == tables(FORMS[form](c))[1:]
    with pytest.raises(SnapshotError, match="the file has no snapshot 3: it has 2"):
        mr.open(data, pick=3)


def test_list_of_segments_stays_one_snapshot() -> None:
    for form in FORMS.values():
        snap = mr.open(form(A["segments"]))
        assert snap.segment_count == len(A["segments"])
        assert snap.native.bare_list


@pytest.mark.parametrize("name", ["a\n::error::b", "\x1b[31mred", "x" * 500])
def test_hostile_names_are_escaped(name: str) -> None:
    with pytest.raises(SnapshotError) as error:
        mr.open(build.dump({name: A, "b": B}))
    text = str(error.value)
    assert text.isprintable()
    assert len(text) < 250


def test_many_dicts_that_look_like_snapshots_take_linear_time() -> None:
    # Each dict checks the deep stack below it.
    data = pickle.dumps(tuple({"x": 1, "segments": []} for _ in range(50_000)), 4)
    with pytest.raises(SnapshotError, match="snapshots in one file"):
        mr.open(data)


@given(traces(max_devices=2), st.sampled_from([2, 4]))
def test_any_snapshot_matches_the_oracle(one: build.Snapshot, protocol: int) -> None:
    plain = oracle.load(build.dump(one, protocol))
    assert_like_oracle(build.dump({"rank": 0, "x": [{"snapshot": one}]}, protocol), plain)
