"""_diagnosis: every code of status.pxd has its text, its class and its remedy."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.engine.base import diagnosis as d

MARK, BINGET, NO_OPCODE, NUL = 0x28, 0x68, 0xFF, 0


def words(code: int, a: int = 0, b: int = 0, detail: str = "", opcode: int = MARK) -> Exception:
    return d.diagnose(code, 77, opcode, a, b, detail, 3)


def test_codes_match_the_native_side(root: Path) -> None:
    text = (root / "src/memreplay/engine/base/status.pxd").read_text(encoding="utf-8")
    native = {name: int(n) for name, n in re.findall(r"(ERR_\w+) = (\d+)", text)}
    assert native
    assert native == {name: getattr(d, name) for name in dir(d) if name.startswith("ERR_")}


def test_kinds_match_the_native_side(root: Path) -> None:
    text = (root / "src/memreplay/engine/read/value.pxd").read_text(encoding="utf-8")
    kinds = {int(n): name for name, n in re.findall(r"(V_\w+) = (\d+)", text)}
    assert {kinds[n] for n in d.TOP_KINDS} == {
        "V_NONE",
        "V_FALSE",
        "V_TRUE",
        "V_INT",
        "V_UINT",
        "V_BIG",
        "V_FLOAT",
        "V_OPAQUE",
        "V_STR",
        "V_PAIR",
    }


@pytest.mark.parametrize(
    "error, kind, pattern",
    [
        (
            words(d.ERR_TRUNCATED, 9, 2),
            mr.TruncatedError,
            r"truncated pickle: need 9 bytes, 2 left \(byte 77, MARK\); the dump was cut off",
        ),
        (words(d.ERR_TRUNCATED, 1, 0), mr.TruncatedError, r"need 1 byte, 0 left \(byte 77\); "),
        (words(d.ERR_TRUNCATED, 1, 0, "JSON"), mr.TruncatedError, "truncated JSON: "),
        (
            words(d.ERR_UNSAFE, detail="os.system"),
            mr.UnsafePickleError,
            r"asks to load or call os\.system \(byte 77, MARK\); .*nothing was executed",
        ),
        (words(d.ERR_UNSAFE), mr.UnsafePickleError, "asks to load or call code"),
        (words(d.ERR_OPCODE, 6, detail="protocol"), mr.SnapshotError, "unknown pickle protocol 6"),
        (
            words(d.ERR_OPCODE, opcode=NO_OPCODE),
            mr.SnapshotError,
            r"byte 0xff is not a pickle opcode \(byte 77\)",
        ),
        (words(d.ERR_OPCODE), mr.SnapshotError, r"this opcode \(byte 77, MARK\)"),
        (words(d.ERR_STACK, detail="no MARK"), mr.SnapshotError, "broken pickle: no MARK"),
        (words(d.ERR_TEXT, detail="an escape"), mr.SnapshotError, "broken pickle: an escape"),
        (words(d.ERR_JSON, detail="a comma"), mr.SnapshotError, "broken JSON: a comma"),
        (
            words(d.ERR_MEMO, 12, opcode=BINGET),
            mr.SnapshotError,
            r"memo entry 12 was never stored \(byte 77, BINGET\)",
        ),
        (words(d.ERR_TYPE, detail="addr"), mr.SnapshotError, "'addr' has a value of the wrong"),
        (
            words(d.ERR_SHAPE, detail="two traces"),
            mr.SnapshotError,
            "not built like .*: two traces",
        ),
        (words(d.ERR_NUMBER, detail="size"), mr.SnapshotError, "does not fit in 'size'"),
        (
            words(d.ERR_LIMIT, 5, 4, "stack_values"),
            mr.LimitError,
            r"stack_values is 5, over the limit of 4 .*--limit stack_values=N",
        ),
        (
            words(d.ERR_LIMIT, 5, 4, "rows of events"),
            mr.LimitError,
            r"rows of events is 5, over the limit of 4 .*--limit rows=N",
        ),
        (
            words(d.ERR_LIMIT, 2**27 + 1, 2**27, "rows of events"),
            mr.LimitError,
            r"over the limit of 134217728 .*; no more fit in one table; record fewer",
        ),
        (words(d.ERR_LIMIT, 5, 4, "devices"), mr.LimitError, "--limit devices=N"),
        (words(d.ERR_LIMIT, 5, 4, "bytes of rows"), mr.LimitError, "damaged, or not a snapshot"),
        (words(d.ERR_SHAPE, 7, detail="top"), mr.SnapshotError, "written by an old torch.save"),
        (words(d.ERR_SHAPE, 10, detail="top"), mr.SnapshotError, "it contains a string"),
        (words(d.ERR_SHAPE, 29, detail="top"), mr.SnapshotError, "it contains something else"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_errors_have_the_expected_class_and_text(
    error: Exception, kind: type[Exception], pattern: str
) -> None:
    assert type(error) is kind
    assert re.search(pattern, str(error))
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "events, segments, hint",
    [
        (4580, 0, "the dump was cut off; read the intact part (4,580 events) with --salvage"),
        (1, 7, "the dump was cut off; read the intact part (1 event) with --salvage"),
        (0, 7, "the dump was cut off; read the intact part (7 segments, no event) with --salvage"),
        (
            *(0, 0),
            "the dump was cut off too early to tell anything, even with --salvage: dump again",
        ),
    ],
)
def test_salvage_is_suggested_if_it_helps(events: int, segments: int, hint: str) -> None:
    error = d.diagnose(d.ERR_TRUNCATED, 77, MARK, 9, 2, "", events, segments)
    assert isinstance(error, mr.TruncatedError)
    assert error.hint == hint


@pytest.mark.parametrize(
    "name, remedy",
    [
        ("collections.OrderedDict", "write dicts, lists, numbers and strings instead"),
        ("numpy.core.multiarray.scalar", "write dicts, lists, numbers and strings instead"),
        ("os.system", "do not unpickle this file, and ask for one that"),
        ("collectionsx.f", "do not unpickle this file, and ask for one that"),
        ("__builtin__.bytes", "older protocols have sets only as calls"),
        ("builtins.eval", "do not unpickle this file, and ask for one that"),
        ("__builtin__.setattr", "do not unpickle this file, and ask for one that"),
        ("_codecs.decode", "do not unpickle this file, and ask for one that"),
    ],
)
def test_rejected_type_comes_with_advice(name: str, remedy: str) -> None:
    error = words(d.ERR_UNSAFE, detail=name)
    assert f"asks to load or call {name} (byte 77, MARK); nothing was executed; " in str(error)
    assert remedy in str(error)


def test_row_limit_matches_the_native_side(root: Path) -> None:
    text = (root / "src/memreplay/engine/read/tables.pxd").read_text(encoding="utf-8")
    assert "MAX_ROWS = 1 << 27 " in text
    assert d.MAX_ROWS == mr.Limits().rows == 1 << 27


def test_out_of_memory_is_a_memory_error() -> None:
    assert isinstance(words(d.ERR_MEMORY), MemoryError)
    assert str(words(d.ERR_MEMORY, detail="events")) == "no memory left for events"


def test_every_error_says_what_to_do() -> None:
    for code in range(d.ERR_TRUNCATED, d.ERR_JSON + 1):
        error = words(code, 1, 1, "something")
        assert isinstance(error, mr.SnapshotError)
        assert error.hint
        assert error.offset == 77


def test_opcodes_have_pickletools_names() -> None:
    assert d.opcode_name(MARK) == "MARK"
    assert d.opcode_name(0x8D) == "BINUNICODE8"
    assert d.opcode_name(NO_OPCODE) is None
    assert d.opcode_name(NUL) is None


@pytest.mark.parametrize("value", [{1}, set(), frozenset({1}), bytearray(b"x")])
def test_pickled_calls_are_rejected_with_advice(value: object) -> None:
    data = {"segments": [], "device_traces": [[]], "other": value}
    with pytest.raises(mr.UnsafePickleError, match="write it with protocol 4"):
        mr.open(pickle.dumps(data, 2))
    if not isinstance(value, bytearray):
        assert mr.open(pickle.dumps(data, 4)).has_events is False
