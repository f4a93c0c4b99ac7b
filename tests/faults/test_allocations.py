"""What `make memory` takes for wrong, with requests that are made up; and a few real ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from memreplay.errors import UsageError
from tests.faults import allocations, native
from tests.faults.allocations import Struck, struck


class Requests:
    """What a work asks for, without native modules: it counts, and one of them fails."""

    def __init__(self) -> None:
        self.asked = self.at = 0
        self.on = False

    def get(self) -> bool:
        """Whether there was memory."""
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


def test_what_is_right(requests: Requests) -> None:
    def work() -> str:
        for _ in range(3):
            if not requests.get():
                raise MemoryError
        requests.get()  # it does without
        return "four"

    assert struck(lambda: work, 100) == (8, [])
    assert struck(lambda: work, 2) == (4, [])


def test_what_is_left_behind(requests: Requests) -> None:
    def prepared() -> Callable[[], object]:
        kept: list[int] = []

        def work() -> tuple[int, ...]:
            if not kept:  # else it looks whole
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


def test_what_is_wrong(requests: Requests) -> None:
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
def test_a_few_requests_of_each_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert native.main(["--short", "--most", "2"]) == 0, capsys.readouterr().out
