"""An item's result: its one-line message, and how it's sent between processes."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

from memreplay.errors import SnapshotError, UsageError
from memreplay.workers.running import (
    LONGEST,
    Done,
    attempt,
    heard,
    in_a_line,
    packed,
    packed_item,
    packed_work,
)
from memreplay.workers.serial import Serial

from . import works


def done(kind: str) -> Done[object]:
    return heard(7, attempt(works.odd, packed(kind)))


def test_result_round_trips() -> None:
    assert done("fine") == Done(7, "fine", "ok", "")


@pytest.mark.parametrize(
    "kind, error",
    [
        ("lines", r"ValueError: one two \x1b[31mthree\x00"),
        ("unpicklable error", "OddError: odd"),
        ("wordless", "WordlessError"),
        ("exit", "SystemExit: 3"),
        ("surrogate", r"FileNotFoundError: [Errno 2] No such file: '\udc80\u202e.pickle'"),
    ],
)
def test_exception_takes_one_line(kind: str, error: str) -> None:
    assert done(kind) == Done(7, None, "failed", error)


def test_long_message_is_cut() -> None:
    error = done("long").error
    assert len(error) == LONGEST
    assert error.startswith("ValueError: long long")
    assert error.endswith("…")


def test_unsendable_result_is_a_failure() -> None:
    found = done("unpicklable result")
    assert (found.status, found.result) == ("failed", None)
    assert re.search("pickle|local object", found.error)  # varies between Pythons
    assert "\n" not in found.error


def test_memreplay_errors_keep_their_message() -> None:
    assert in_a_line(SnapshotError("no snapshot", offset=3)) == "no snapshot (byte 3)"


@pytest.mark.parametrize(
    "error, words",
    [
        (MemoryError(), "out of memory"),
        (MemoryError("Unable to allocate 3 GiB"), "out of memory: Unable to allocate 3 GiB"),
        (OSError(12, "Cannot allocate memory"), "out of memory: [Errno 12] Cannot allocate memory"),
        (RuntimeError("can't start new thread"), "out of memory: can't start new thread"),
    ],
)
def test_every_form_of_out_of_memory_is_recognized(error: BaseException, words: str) -> None:
    def fails(_: object) -> None:
        raise error

    assert heard(0, attempt(fails, packed(1))) == Done(0, None, "memory", words)


def test_failed_work_is_freed_before_it_is_reported() -> None:
    """A frame that stays alive would keep memory that the next item needs."""
    kept: list[BaseException] = []

    def fails(_: object) -> None:
        try:
            raise MemoryError
        except MemoryError as inner:
            kept.append(ValueError())
            raise kept[0] from inner

    attempt(fails, packed(1))
    (error,) = kept
    assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


def test_ctrl_c_is_not_a_failed_item() -> None:
    with pytest.raises(KeyboardInterrupt):
        done("interrupt")


def test_unreadable_answer_is_a_failure() -> None:
    found = heard(2, b"nonsense")
    assert (found.index, found.status) == (2, "failed")
    assert found.error.startswith("UnpicklingError: ")


def test_unsendable_item_is_finished() -> None:
    found = packed_item(4, lambda: None)
    assert isinstance(found, Done)
    assert (found.index, found.status) == (4, "failed")
    sent = packed_item(4, "x")
    assert isinstance(sent, bytes)
    assert pickle.loads(sent) == "x"


def test_unsendable_function_is_an_error() -> None:
    with pytest.raises(
        UsageError, match=r"^this function can't be sent to workers: .*(pickle|local object)"
    ):
        packed_work(lambda: None)


def test_serial_run_continues_after_a_failure() -> None:
    one = Serial()
    items: list[Any] = ["fine", "lines", lambda: None, "good"]
    found = list(one.run(works.odd, items))
    assert [(each.index, each.status) for each in found] == [
        (0, "ok"),
        (1, "failed"),
        (2, "failed"),
        (3, "ok"),
    ]
    assert one.workers == 1
    one.close()
