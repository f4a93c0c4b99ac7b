"""metadata: strings stay strings, and everything else reads back as the same data."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from tests import build
from tests.pickle_ops import Ops
from tests.unit.engine.parts import setting


def event(value: Any, key: str = "user_metadata") -> dict[str, Any]:
    return {"segments": [], "device_traces": [[{"action": "alloc", key: value}]]}


def metadata(value: Any, protocol: int = 4, key: str = "user_metadata") -> Any:
    snap = mr.open(build.dump(event(value, key), protocol))
    return snap.metadata(int(getattr(snap.events, key)[0]))


DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8).filter(lambda t: not t.startswith("\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from("abcdefgh"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(value=DATA, protocol=st.integers(0, 5))
def test_metadata_round_trips(value: Any, protocol: int) -> None:
    assert metadata(value, protocol) == value


@pytest.mark.parametrize("key", ["user_metadata", "compile_context"])
def test_both_metadata_keys_keep_any_value(key: str) -> None:
    values: list[Any] = ["N/A", "", None, {}, [], {"a": {}}, [[]], 5, True, 2.5, (3, 4)]
    for value in values:
        assert metadata(value, key=key) == (list(value) if isinstance(value, tuple) else value)


def test_strings_are_escaped() -> None:
    for text in ('"', "\\", "\n\t\r\0\x1f", "é训练😀", "\ud800", "\u2028"):
        assert metadata({text: [text]}) == {text: [text]}


def test_numbers_are_exact() -> None:
    for number in (0.1, 5e-324, 1.7976931348623157e308, 2**63 - 1, -(2**63), 2**64 - 1):
        assert metadata([number]) == [number]


def test_values_missing_in_json_become_null() -> None:
    assert metadata([math.nan, math.inf, 2**70, b"bytes", {1, 2}]) == [None] * 5


@pytest.mark.parametrize(
    "value",
    [(), (1,), ("a", "b", "c"), (1.5, None), ((), ((),)), ([1], {}), {"a": ("b", "c", "d")}],
    ids=repr,
)
@pytest.mark.parametrize("protocol", range(2, 6))
def test_tuples_become_lists(value: Any, protocol: int) -> None:
    want = json.loads(json.dumps(value))
    assert metadata(value, protocol) == want
    assert metadata([value, {"a": value}, value], protocol) == [want, {"a": want}, want]


def test_list_built_from_stack_items_is_kept() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    ops.string("device_traces").empty_list().empty_list()
    ops.empty_dict().string("user_metadata").mark().integer(1).string("a").op("LIST").setitem()
    ops.append().append().setitems().stop()
    snap = mr.open(bytes(ops))
    assert snap.metadata(int(snap.events.user_metadata[0])) == [1, "a"]


def test_equal_metadata_is_stored_once() -> None:
    trace = [{"user_metadata": {"step": i % 3}} for i in range(30)]
    snap = mr.open(build.dump({"segments": [], "device_traces": [trace]}))
    assert len(set(snap.events.user_metadata.tolist())) == 3
    assert [snap.metadata(int(i)) for i in snap.events.user_metadata] == [
        {"step": i % 3} for i in range(30)
    ]


def test_dict_may_be_shared_by_events() -> None:
    shared = {"run": [1, 2, 3]}
    trace = [{"user_metadata": shared} for _ in range(30)]
    snap = mr.open(build.dump({"segments": [], "device_traces": [trace]}))
    assert snap.metadata(int(snap.events.user_metadata[29])) == shared


def test_nesting_below_32_levels_is_left_out() -> None:
    value: Any = "bottom"
    for _ in range(60):
        value = [value]
    found = metadata(value)
    for _ in range(32):
        (found,) = found
    assert found is None


def test_list_that_contains_itself_is_cut() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    ops.string("device_traces").empty_list().empty_list()
    ops.empty_dict().string("user_metadata").empty_list().put(0).get(0).append().setitem()
    ops.append().append().setitems().stop()
    snap = mr.open(bytes(ops))
    found = snap.metadata(int(snap.events.user_metadata[0]))
    assert isinstance(found, list)
    assert len(found) == 1


def test_more_than_64_kib_is_refused() -> None:
    assert metadata(["x" * 65_000]) == ["x" * 65_000]
    assert metadata("x" * 200_000) == "x" * 200_000
    wide: Any = [0]
    for _ in range(20):
        wide = [wide, wide]
    for value in (["x" * 66_000], list(range(20_000)), wide):
        with pytest.raises(mr.LimitError, match="bytes of one metadata"):
            mr.open(build.dump(event(value)))


def test_metadata_may_not_change_after_use() -> None:
    def events(later: Ops) -> bytes:
        ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
        ops.string("device_traces").empty_list().empty_list()
        ops.empty_dict().string("user_metadata").empty_list().empty_list().put(1).append()
        ops.setitem().append().raw(bytes(later)).append().setitems().stop()
        return bytes(ops)

    assert mr.open(events(Ops())).native.n_events == 1
    for later in (Ops().get(1).integer(5).append().op("POP"),):
        with pytest.raises(mr.SnapshotError, match="metadata that changes after its use"):
            mr.open(events(later))


@pytest.mark.parametrize("what, within", [("DICT", False), ("DICT", True), ("LIST", False)])
def test_container_filled_before_its_creation_is_refused(what: str, within: bool) -> None:
    # A LIST of plain values is a kept list, also inside another list.
    made = Ops().mark().string("a").empty_list().op(what)
    value = Ops().empty_list().raw(bytes(made)).append() if within else made
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    ops.string("device_traces").empty_list().empty_list().empty_dict().string("user_metadata")
    ops.raw(bytes(value)).setitem().append().append().setitems().stop()
    with pytest.raises(mr.SnapshotError, match="filled before it is created"):
        mr.open(bytes(ops))
    with pytest.raises(mr.SnapshotError, match="filled before it is created"):
        mr.open(setting(value))
