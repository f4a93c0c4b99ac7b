"""Tests of recording/guarding.py: errors that stay inside the recorder, and those that don't."""

from __future__ import annotations

import contextlib
import functools
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.recording.guarding import LONGEST, MOST_FAILURES, Guard


def failing(error: BaseException) -> None:
    raise error


def test_result_is_returned() -> None:
    guard = Guard()
    assert guard.run("adding", lambda a, b: a + b, 1, 2) == 3
    assert guard.failures() == []


def test_errors_are_counted_and_the_first_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    guard = Guard()
    for _ in range(3):
        assert guard.run("looking", failing, ValueError("a\n  b"), otherwise=7) == 7
    assert guard.run("asking", failing, KeyError("x")) is None
    assert guard.failures() == [
        {"doing": "looking", "error": "ValueError: a b", "count": 3},
        {"doing": "asking", "error": "KeyError: 'x'", "count": 1},
    ]
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("memreplay: looking failed (ValueError: a b); the program continues")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_that_end_the_program_pass(kind: type[BaseException]) -> None:
    guard, error = Guard(), kind("x")
    with pytest.raises(kind) as raised:
        guard.run("looking", failing, error)
    assert raised.value is error
    assert guard.failures() == []


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_failures_are_kept_without_stderr_or_a_readable_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    guard = Guard()
    guard.run("looking", failing, UnreadableError())
    guard.run("looking", failing, ValueError("x" * 10_000))
    short, long = guard.failures()
    assert short["error"] == "UnreadableError"
    assert len(long["error"]) == LONGEST


def test_number_of_distinct_failures_is_bounded() -> None:
    guard = Guard(say=lambda _: None)
    for i in range(2 * MOST_FAILURES):
        guard.run("looking", failing, ValueError(str(i)))
    guard.run("looking", failing, ValueError("0"))
    found = guard.failures()
    assert len(found) == MOST_FAILURES
    assert found[0]["count"] == 2


class TimedOutError(Exception):
    pass


def timed_out(_: int, __: object, more: int = 0) -> None:
    raise TimedOutError(more)


class Handler:
    def __call__(self, *_: object) -> None:
        raise TimedOutError

    def method(self, *_: object) -> None:
        raise TimedOutError


@pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="this system has no such signal")
@pytest.mark.parametrize(
    "handler", [timed_out, functools.partial(timed_out, more=1), Handler(), Handler().method]
)
def test_exception_of_a_signal_handler_passes(handler: Any) -> None:
    """A program's timeout may fire while the recorder is working, but the exception belongs to the
    program.
    """
    before = signal.signal(signal.SIGUSR2, handler)
    guard = Guard()
    try:
        with pytest.raises(TimedOutError):
            guard.run("looking", signal.raise_signal, signal.SIGUSR2)
        assert guard.run("looking", failing, TimedOutError()) is None  # no handler raised it
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert [one["count"] for one in guard.failures()] == [1]


def test_torch_function_of_the_program_is_not_called() -> None:
    entered: list[str] = []

    @contextlib.contextmanager
    def apart() -> Any:
        entered.append("in")
        yield
        entered.append("out")

    torch = SimpleNamespace(_C=SimpleNamespace(DisableTorchFunction=apart))
    Guard(torch).run("looking", lambda: entered.append("work"))
    assert entered == ["in", "work", "out"]
