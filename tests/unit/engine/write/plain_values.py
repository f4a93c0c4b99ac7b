"""Plain values and opcode streams for testing code that rewrites a pickle."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.pickle_ops import Ops

TEXTS = st.one_of(
    st.text(max_size=5),
    st.text(st.characters(categories=["Cs", "Cc", "Lu", "So"]), max_size=5),
    st.sampled_from(
        ["", "a", "frames", "pool_id", "segment_pool_id", '"\\/', "é" * 130, "x" * 256]
    ),
)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([sign * 2**n + d for n in range(64) for sign in (1, -1) for d in (0, -sign)]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(allow_nan=False), TEXTS)


def values(*, tuples: bool = True) -> st.SearchStrategy[Any]:
    """JSON values and tuples: nested, with shared parts."""

    def grown(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(children, max_size=4)
        found = [
            lists,
            st.dictionaries(TEXTS, children, max_size=4),
            children.map(lambda v: [v, v]),
        ]
        return st.one_of(*found, *([lists.map(tuple)] if tuples else []))

    return st.recursive(SCALARS, grown, max_leaves=12)


def lists(value: Any) -> Any:
    """JSON values: no tuples."""
    if isinstance(value, dict):
        return {key: lists(item) for key, item in value.items()}
    return [lists(item) for item in value] if isinstance(value, (list, tuple)) else value


PIECES: list[Any] = [
    *(lambda ops, _, name=name: ops.op(name) for name in (
        *("MARK", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "NONE", "NEWTRUE", "NEWFALSE"),
        *("APPEND", "APPENDS", "SETITEM", "SETITEMS", "TUPLE", "LIST", "DICT"),
        *("TUPLE1", "TUPLE2", "TUPLE3", "MEMOIZE"),
    )),
    lambda ops, n: ops.put(n % 4),
    lambda ops, n: ops.get(n % 4),
    lambda ops, n: ops.op("LONG_BINPUT", bytes([n % 4, 0, 0, 0])),
    lambda ops, n: ops.op("LONG_BINGET", bytes([n % 4, 0, 0, 0])),
    lambda ops, n: ops.string("kj"[n % 2]),
    lambda ops, n: ops.binunicode("kj"[n % 2]),
    lambda ops, n: ops.string("k").string("j").integer(n),
    lambda ops, n: ops.integer(n * 1_000),
    lambda ops, n: ops.long1(-n, 1 + n % 9),
    lambda ops, n: ops.op("BINFLOAT", bytes([0x40, n, 0, 0, 0, 0, 0, 0])),
]  # fmt: skip


@st.composite
def streams(draw: st.DrawFn, most: int = 16) -> bytes:
    """Draw opcodes of plain data in any order; sometimes they are a valid pickle."""
    ops = Ops().proto(4)
    pieces = st.tuples(st.sampled_from(PIECES), st.integers(0, 100))
    for piece, number in draw(st.lists(pieces, max_size=most)):
        piece(ops, number)
    return bytes(ops.stop())
