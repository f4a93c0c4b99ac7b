"""`make memory` detects the errors it looks for. Most of these tests use fake memory requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from memreplay.errors import UsageError
from tests.faults import allocations, native
from tests.faults.allocations import Struck, struck


class Requests:
    """Fake memory requests that need no native modules. They're counted, and one of them fails."""

    def __init__(self) -> None:
        self.asked = self.at = 0
        self.on = False

    def get(self) -> bool:
        """Request memory; return whether there was any."""
        number = self.asked
        self.asked += 1
        return not (self.at >= 0 and (number >= self.at if self.on else number == self.at))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:

    made = Requests()

    @contextmanager
    def failing(at: int = -1, *, on: bool = False) -> Iterator[Callable[[], int]]:
        made.asked, made.at, made.on = 0, at, on
        try:
            yield lambda: made.asked
        finally:
            made.at = -1

    monkeypatch.setattr(allocations, "failing", failing)
    return made


def test_correct_work_passes(requests: Requests) -> None:
    def work() -> str:
        for _ in range(3):
            if not requests.get():
                raise MemoryError
        requests.get()  # works without it
        return "four"

    assert struck(lambda: work, 100) == (8, [])
    assert struck(lambda: work, 2) == (4, [])


def test_half_done_work_is_reported(requests: Requests) -> None:
    def prepared() -> Callable[[], object]:
        kept: list[int] = []

        def work() -> tuple[int, ...]:
            if not kept:  # if not empty, it's taken to be complete
                for number in range(3):
                    if not requests.get():
                        raise MemoryError
                    kept.append(number)
            return tuple(kept)

        return work

    assert [str(one) for one in struck(prepared, 100)[1]] == [
        "request 1",
        "request 1 and all after it",
        "request 2",
        "request 2 and all after it",
    ]


def test_unexpected_errors_and_results_are_reported(requests: Requests) -> None:
    def work() -> int:
        if not requests.get():
            raise KeyError("x")
        if not requests.get():
            raise UsageError("no such thing")
        return sum(requests.get() for _ in range(2))

    runs, wrong = struck(lambda: work, 100)
    assert runs == 8
    said = [(str(one), one.found) for one in wrong]
    assert said == [
        ("request 0", "KeyError: 'x'"),
        ("request 0 and all after it", "KeyError: 'x'"),
        ("request 1", "UsageError: no such thing"),
        ("request 1 and all after it", "UsageError: no such thing"),
        ("request 2", 1),
        ("request 2 and all after it", 0),
        ("request 3", 1),
        ("request 3 and all after it", 1),
    ]
    assert isinstance(wrong[0], Struck)


@pytest.mark.skipif(not allocations.is_possible(), reason="these modules cannot fail: make memory")
def test_native_modules_survive_failed_memory_requests(capsys: pytest.CaptureFixture[str]) -> None:
    assert native.main(["--short", "--most", "2"]) == 0, capsys.readouterr().out
