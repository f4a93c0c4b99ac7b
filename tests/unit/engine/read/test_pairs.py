"""pairs: the fast path sets and refuses keys of blocks and segments like the general path."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import memreplay as mr
from tests import oracle
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops
from tests.unit.engine.read.test_fast import defeat

KEYS = ("address", "size", "state", "inactive", "x", "stage", "total_size", "name", "frames")


def block(fill: Callable[[Ops], object]) -> bytes:
    """Return a snapshot whose only block has the items that `fill` writes, with KEYS in the memo
    from 0 on.
    """
    ops = Ops().proto(4)
    for number, key in enumerate(KEYS):
        ops.string(key).put(number).op("POP")
    ops.empty_dict().mark().string("device_traces").empty_list().string("segments").empty_list()
    ops.empty_dict().mark().string("address").integer(512).string("total_size").integer(4096)
    ops.string("blocks").empty_list().mark().empty_dict().mark()
    fill(ops)
    ops.setitems().appends().setitems().append()
    for _ in range(60):  # keeps the end of the input out of reach
        ops.string("padding").integer(0)
    return bytes(ops.setitems().stop())


def frame(ops: Ops, number: int) -> Ops:
    """Return a frame stored in the memo under this index."""
    ops.empty_dict().put(number).mark().string("filename").string("a.py")
    return ops.string("line").integer(number).string("name").string("f").setitems()


VALUES: dict[str, Callable[[Ops], object]] = {
    "integers": lambda o: o.get(0).integer(512).get(1).integer(4096),
    "the last of two": lambda o: o.get(1).integer(512).get(1).integer(4096),
    "a constant": lambda o: o.get(1).op("NEWTRUE").get(3).op("NONE"),
    "a text": lambda o: o.get(2).get(3).get(1).integer(8),
    "an unknown key": lambda o: o.get(4).integer(3).get(1).integer(8),
    "a tuple of an unknown key": lambda o: (
        o.get(4).integer(3).get(3).op("TUPLE2").get(1).integer(8)
    ),
    "a tuple of another's key": lambda o: o.get(5).integer(3).get(3).op("TUPLE2").get(1).integer(8),
    "a list": lambda o: o.get(1).integer(8).get(4).empty_list().get(2).get(3),
    "no frames": lambda o: o.get(8).op("NONE").get(1).integer(4),
    "a key that is written out": lambda o: o.get(1).integer(8).string("state").string("inactive"),
    "frames that are a tuple": lambda o: (
        frame(frame(o.get(8), 20), 21)
        .op("TUPLE2")
        .get(8)
        .get(21)
        .get(20)
        .op("TUPLE2")
        .get(1)
        .integer(8)
    ),
    "a number that is doubled": lambda o: o.get(1).integer(8).op("DUP").op("POP"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_read_the_same_on_both_paths(kind: str) -> None:
    data = block(VALUES[kind])
    snapshot = oracle.load(data)
    assert_like_oracle(data, snapshot)
    assert_like_oracle(defeat(data), snapshot)


WRONG: dict[str, Callable[[Ops], object]] = {
    "a text for a number": lambda o: o.get(1).get(2),
    "a negative size": lambda o: o.get(0).integer(0).get(1).integer(-1).get(2).get(3),
    "a number for a text": lambda o: o.get(2).integer(3).get(1).integer(1),
    "a list of something else": lambda o: o.get(8).get(3),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_values_give_the_same_error_on_both_paths(kind: str) -> None:
    said = []
    for data in (block(WRONG[kind]), defeat(block(WRONG[kind]))):
        with pytest.raises(mr.SnapshotError) as caught:
            mr.open(data)
        said.append(str(caught.value).partition("(byte")[0])
        assert "SETITEMS" in str(caught.value)
    assert said[0] == said[1]


@pytest.mark.parametrize("end", ["POP_MARK", "TUPLE", "LIST", "DICT"])
def test_pairs_that_are_not_set_are_refused(end: str) -> None:
    data = block(lambda o: o.get(1).integer(8).get(2).op(end).op("NONE").mark())
    with pytest.raises(mr.SnapshotError, match="items that aren't set in their dict"):
        mr.open(data)


def test_errors_do_not_depend_on_where_the_window_ends() -> None:
    """Pairs are set early only if enough of the input is in the reader's window."""

    def fill(ops: Ops) -> None:
        for _ in range(20):
            ops.get(1).integer(512)
        ops.get(4).op("APPENDS")  # in place of SETITEMS

    data = block(fill)
    window = 1 << 20
    found = set()
    for before in range(window - len(data), window, 7):
        padding = bytes(
            Ops().op("BINBYTES", before.to_bytes(4, "little") + bytes(before)).op("POP")
        )
        with pytest.raises(mr.SnapshotError) as caught:
            mr.open(data[:2] + padding + data[2:])
        place = caught.value.offset
        assert place is not None
        found.add((caught.value.message, place - len(padding)))
    assert len(found) == 1, found
