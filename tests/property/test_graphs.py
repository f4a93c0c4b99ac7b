"""Pickle arbitrary graphs in any way, and check memreplay's results."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import memreplay as mr
from tests.examples import examples
from tests.graphs.choosing import Drawn, Seeded
from tests.graphs.inputs import KINDS, Input, make
from tests.graphs.judging import JudgedError, judge, loaded
from tests.graphs.nodes import Atom, Items, Pairs, count_references
from tests.graphs.reading import WrongError, snapshot_of
from tests.graphs.shaping import CALLS, Shaper
from tests.graphs.writing import Style, Writer
from tests.pickle_ops import Ops

# Drawing an input takes up to a few thousand choices.
LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@st.composite
def inputs(draw: st.DrawFn, kinds: tuple[str, ...]) -> Input:
    """Draw an input of one of these kinds."""
    return make(Drawn(draw), kinds)


def judged(one: Input) -> None:
    event(f"{one.kind}: {judge(one.data, sound=one.sound, called=one.called)}")


@settings(max_examples=examples(25), suppress_health_check=LARGE)
@given(one=inputs(KINDS[:2]))
def test_valid_graphs_give_the_same_data_with_any_opcodes(one: Input) -> None:
    judged(one)


@settings(max_examples=examples(25), suppress_health_check=LARGE)
@given(one=inputs(KINDS[2:5]))
def test_any_graph_is_rejected_or_gives_the_same_numbers_as_python(one: Input) -> None:
    judged(one)


@settings(max_examples=examples(10), suppress_health_check=LARGE)
@given(one=inputs(KINDS[5:]))
def test_calls_are_rejected_anywhere(one: Input) -> None:
    judged(one)


def test_most_inputs_reach_the_replay() -> None:
    counts: Counter[str] = Counter()
    for number in range(60):
        one = make(Seeded(number))
        counts[judge(one.data, sound=one.sound, called=one.called)] += 1
    assert counts["replayed"] >= 30, counts
    assert counts["refused"] >= 6, counts


# ---- tests of the writer and the judge -----------------------------------------------------------


def styles() -> st.SearchStrategy[Style]:
    """Draw any style that leaves no values on the stack."""
    return st.builds(
        Style,
        protocol=st.integers(0, 5),
        memo=st.sampled_from(("all", "shared", "few")),
        odd=st.sampled_from((0, 5, 30)),
        wild=st.booleans(),
        frames=st.integers(0, 2),
    )


@settings(max_examples=examples(30), suppress_health_check=LARGE)
@given(data=st.data(), style=styles())
def test_every_style_gives_the_same_data(data: st.DataObject, style: Style) -> None:
    # With unusual digits, which are part of `wild`, numbers may be read differently.
    root = Shaper(Seeded(data.draw(st.integers(0, 10**6))), wrong=0, called=False, alike=0).whole()
    plain = Style(protocol=4, memo="all", odd=0, wild=False, frames=1)
    want = loaded(Writer(Seeded(0), plain).whole(root))
    assert not isinstance(want, Exception), want
    got = loaded(Writer(Seeded(data.draw(st.integers(0, 10**6))), style).whole(root))
    if style.wild and isinstance(got, Exception):
        return
    if not style.wild:
        assert repr(got) == repr(want)
    assert type(got) is type(want)


def test_plain_style_writes_the_same_bytes_as_pickle() -> None:
    shared = Items("list", [Atom("a"), Atom(2**70)])
    circle = Pairs([(Atom("in"), shared)])
    circle.items.append((Atom("self"), circle))
    root = Items("list", [circle, shared, Items("tuple", [shared] * 4), Atom(-1.5), Atom(None)])
    list_: list[Any] = ["a", 2**70]
    dict_: dict[str, Any] = {"in": list_}
    dict_["self"] = dict_
    value = [dict_, list_, (list_, list_, list_, list_), -1.5, None]
    for protocol in range(1, 6):
        style = Style(protocol=protocol, memo="all", odd=0, wild=False, frames=protocol >= 4)
        assert Writer(Seeded(0), style).whole(root) == pickle.dumps(value, protocol)


def test_self_references_are_detected() -> None:
    inner = Items("list", [])
    outer = Pairs([(Atom("a"), Items("tuple", [inner])), (Atom("b"), inner)])
    counts, cyclic = count_references(outer)
    assert counts[id(inner)] == 2
    assert not cyclic
    inner.items.append(outer)
    _, cyclic = count_references(outer)
    assert cyclic == {id(one) for one in (outer, outer.items[0][1], inner)}


@pytest.mark.parametrize("code", CALLS, ids=repr)
def test_every_kind_of_call_is_rejected(code: bytes) -> None:
    for before in (b"", b"N", b"(", b"]"):
        data = bytes(Ops().proto(4).empty_dict().string("segments")) + before + code + b"s."
        with pytest.raises(mr.SnapshotError):
            mr.open(data)


def sound() -> tuple[Pairs, Pairs]:
    """Return a snapshot with one alloc, and the alloc event."""
    made = Pairs([(Atom("action"), Atom("alloc")), (Atom("addr"), Atom(512))])
    made.items.append((Atom("size"), Atom(100)))
    traces = Items("list", [Items("list", [made])])
    return Pairs([(Atom("segments"), Items("list", [])), (Atom("device_traces"), traces)]), made


def test_judge_reports_a_wrong_number(monkeypatch: pytest.MonkeyPatch) -> None:
    style = Style(protocol=4, memo="all", odd=0, wild=False, frames=0)
    root, made = sound()
    data = Writer(Seeded(0), style).whole(root)
    assert judge(data, sound=True) == "replayed"
    made.items[-1] = (Atom("size"), Atom(101))
    other = Writer(Seeded(0), style).whole(root)
    read = mr.open
    monkeypatch.setattr("memreplay.open", lambda _: read(other))
    with pytest.raises(AssertionError):
        judge(data)
    with pytest.raises(JudgedError, match="read, though it calls"):
        judge(data, called=True)


def test_judge_reports_a_rejected_valid_input() -> None:
    style = Style(protocol=2, memo="all", odd=0, wild=False, frames=0)
    for value, sees in ((Atom(1.0), "no number"), (Atom(-1), "no number that fits")):
        root, made = sound()
        made.items[-1] = (Atom("size"), value)
        data = Writer(Seeded(0), style).whole(root)
        assert judge(data) == "refused"
        with pytest.raises(JudgedError, match="refused, and sound"):
            judge(data, sound=True)
        with pytest.raises(WrongError, match=sees):
            snapshot_of(loaded(data))
