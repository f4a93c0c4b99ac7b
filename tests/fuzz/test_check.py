"""The judge reports nothing for a correct engine, and a finding for a faulty one."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.groups import grouping
from tests import bad_files, build, pickle_ops
from tests.build import SnapshotBuilder
from tests.fuzz import check as judge
from tests.fuzz.check import WrongError, check, check_against_python, check_window_edge
from tests.fuzz.inputs import Inputs
from tests.fuzz.seeds import recording, seeds

GOOD = build.dump(recording(6))


def test_hundreds_of_inputs_pass_the_check() -> None:
    make = Inputs(seeds(), 3)
    outcomes = set()
    for i in range(400):
        data = make(i)[1]
        outcome = check(data)
        outcomes.add(outcome)
        if i % 8 == 0:
            check_against_python(data, outcome)
    assert outcomes >= {"read", "salvaged", "SnapshotError", "UnsafePickleError"}


def test_check_returns_the_outcome_of_an_input() -> None:
    assert check(GOOD) == "read"
    assert check(GOOD[:-1]) == "salvaged"
    assert check(GOOD[:5]) == "TruncatedError"
    assert check(bad_files.calls_function()) == "UnsafePickleError"


def raises(error: Exception) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> Any:
        raise error

    return call


class OfTwoLines(mr.SnapshotError):
    def __str__(self) -> str:
        return "a\nb"


ERRORS = {
    "of two lines": OfTwoLines("a", offset=1, hint="x"),
    "without end": mr.SnapshotError("a" * 2000, offset=1, hint="x"),
    "without remedy": mr.SnapshotError("a", offset=1),
    "without place": mr.SnapshotError("a", hint="x"),
    "of a place elsewhere": mr.SnapshotError("a", offset=10**6, hint="x"),
    "no error of ours": KeyError("a"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_uninformative_error_is_a_finding(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mr, "open", raises(ERRORS[error]))
    with pytest.raises((WrongError, KeyError)):
        check(GOOD)


def test_wrong_group_count_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = grouping.Grouper.groups

    def greedy(*args: Any) -> Any:
        groups, total, count = honest(*args)
        return groups, total, count + 1

    monkeypatch.setattr(grouping.Grouper, "groups", greedy)
    with pytest.raises(WrongError, match="groups and allocations"):
        check(GOOD)


def padded(i: int) -> bytes:
    """Return a recording with padding number `i`; the check's random choices depend on its
    checksum.
    """
    return GOOD + bytes([i % 256, i // 256])


def with_dice(modulus: int, remainder: int) -> bytes:
    return next(d for d in map(padded, range(9999)) if zlib.crc32(d) % modulus == remainder)


def test_range_with_different_numbers_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = next(
        d for d in map(padded, range(9999)) if zlib.crc32(d) // 64 % 4 == 2 and zlib.crc32(d) % 8
    )
    other = build.dump(SnapshotBuilder().alloc(1, 2).alloc(3, 4).build())
    honest = mr.open

    def lying(source: Any, **how: Any) -> Any:
        return honest(other, **how) if "start" in how else honest(source, **how)

    check(data)
    monkeypatch.setattr(mr, "open", lying)
    with pytest.raises(WrongError, match="range"):
        check(data)


def test_different_result_at_the_windows_edge_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mr.open(GOOD)
    for dice in range(0, 32 * len(GOOD), 32):
        if dice % (32 * 41) == 0:
            check_window_edge(GOOD, whole, dice)
    monkeypatch.setattr(judge, "contents", id)
    with pytest.raises(WrongError, match="window's edge"):
        check_window_edge(GOOD, whole, 0)


def test_nested_frames_do_not_reach_pythons_unpickler() -> None:
    ops = pickle_ops.Ops().proto(4).frame(40).empty_dict().frame(6).string("segments").empty_list()
    data = bytes(ops.setitem().stop())
    assert check(data) == "read"
    check_against_python(data, "read")


def test_numbers_that_differ_from_python_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    check_against_python(GOOD, "read")
    other = build.dump(recording(7))
    honest = mr.open
    monkeypatch.setattr(mr, "open", lambda _source, **how: honest(other, **how))
    with pytest.raises(WrongError, match="not what Python reads"):
        check_against_python(GOOD, "read")
