"""Samples of the cards' and the process's memory, with a stand-in for torch."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.recording import memory_samples as module
from memreplay.recording.guarding import Guard
from memreplay.recording.memory_samples import Samples, Thinned
from memreplay.recording.processes import CannotListError, Lister, Process

GIB = 1 << 30


class Card:
    """torch.cuda with two devices, of which the first is used."""

    def __init__(self) -> None:
        self.free, self.total, self.reserved = 70 * GIB, 80 * GIB, 6 * GIB
        self.asked: list[int] = []
        self.growing = 0
        self.initialized = True

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        return 2

    def memory_reserved(self, _: int) -> int:
        return self.reserved

    def mem_get_info(self, device: int) -> tuple[int, int]:
        self.asked.append(device)
        if self.growing:  # the program allocates in the meantime
            self.growing -= 1
            self.reserved += GIB
            self.free -= GIB
        return self.free, self.total


class Listed(Lister):
    """Lists these processes."""

    def __init__(self, *found: Process) -> None:
        self.found = list(found)

    def processes(self, device: int) -> list[Process]:
        return self.found


OTHER = Process(4711, "python", 3 * GIB)
OWN = Process(os.getpid(), "python", 7 * GIB)


@pytest.fixture
def torch() -> Any:
    core = SimpleNamespace(_cuda_hasPrimaryContext=lambda device: device == 0)
    return SimpleNamespace(cuda=Card(), _C=core)


@pytest.fixture
def samples(torch: Any) -> Iterator[Samples]:
    made = Samples(torch, "cuda", Guard(torch))
    made.lister = Listed(OTHER, OWN)
    yield made
    made.stop()


def cards(samples: Samples) -> Any:
    return samples.notes()["card_memory"]


def test_sample_has_what_the_driver_and_the_allocator_say(samples: Samples) -> None:
    before = time.time_ns() // 1000
    samples.take()
    (found,) = cards(samples)
    (when,) = found.pop("times_us")
    assert before <= when <= time.time_ns() // 1000
    assert found == {
        "device": 0,
        "total_bytes": 80 * GIB,
        "is_part": False,
        "free_bytes": [70 * GIB],
        "reserved_bytes": [6 * GIB],
        "other_bytes": [3 * GIB],
        "processes": [
            {"pid": 4711, "name": "python", "bytes": 3 * GIB, "is_recorded": False},
            {"pid": os.getpid(), "name": "python", "bytes": 7 * GIB, "is_recorded": True},
        ],
        "processes_missing": "",
    }
    assert not samples.guard.failures()


def test_unused_devices_are_not_touched(samples: Samples, torch: Any) -> None:
    samples.take()
    assert torch.cuda.asked == [0]
    torch.cuda.initialized = False
    samples.take()
    assert torch.cuda.asked == [0]


def test_devices_without_a_context_function_count_if_they_have_memory(
    samples: Samples, torch: Any
) -> None:
    del torch._C._cuda_hasPrimaryContext
    torch.cuda.reserved = 0
    samples.take()
    assert torch.cuda.asked == []
    torch.cuda.reserved = 1
    samples.take()
    assert torch.cuda.asked == [0, 1]


def test_sample_is_taken_again_if_the_program_allocated_in_between(
    samples: Samples, torch: Any
) -> None:
    torch.cuda.growing = 2
    samples.take()
    (found,) = cards(samples)
    assert found["free_bytes"] == [68 * GIB]
    assert found["reserved_bytes"] == [8 * GIB]
    torch.cuda.growing = 1000  # it always does
    samples.take()
    (found,) = cards(samples)
    assert len(found["free_bytes"]) == 2


@pytest.mark.parametrize("found", [[], [OTHER], [OWN, OTHER._replace(bytes=None)]])
def test_others_are_unknown_if_the_list_is_incomplete(
    samples: Samples, found: list[Process]
) -> None:
    """In a container, the driver may list other pids than the program knows."""
    samples.lister = Listed(*found)
    samples.take()
    (notes,) = cards(samples)
    assert notes["other_bytes"] == [None]
    assert [one["pid"] for one in notes["processes"]] == [one.pid for one in found]
    assert notes["processes_missing"] == ""


def test_reason_for_a_missing_list_is_noted(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fails(*_: object) -> Lister:
        calls.append(1)
        raise CannotListError("no library")

    monkeypatch.setattr(module, "lister", fails)
    samples.lister = None
    samples.take()
    samples.take()
    (notes,) = cards(samples)
    assert notes["other_bytes"] == [None, None]
    assert notes["processes_missing"] == "no library"
    assert len(calls) == 1  # it isn't tried again


@pytest.mark.parametrize(
    "error, words",
    [(CannotListError("no answer"), "no answer"), (KeyError("pid"), "KeyError: 'pid'")],
)
def test_failed_list_does_not_stop_the_samples(
    samples: Samples, error: Exception, words: str
) -> None:
    class Failing(Listed):
        failed = False

        def processes(self, device: int) -> list[Process]:
            if self.failed:
                raise error
            return super().processes(device)

    failing = samples.lister = Failing(OTHER, OWN)
    samples.take()
    failing.failed = True
    samples.take()
    (notes,) = cards(samples)
    assert notes["processes_missing"] == words
    assert notes["processes"] == []
    failing.failed = False
    samples.take()
    (notes,) = cards(samples)
    assert notes["other_bytes"] == [3 * GIB, None, 3 * GIB]
    assert notes["processes_missing"] == ""
    assert len(notes["processes"]) == 2
    assert not samples.guard.failures()


def test_failing_card_does_not_stop_the_others(samples: Samples, torch: Any) -> None:
    def answer(device: int) -> tuple[int, int]:
        if device == 0:
            raise RuntimeError("lost")
        return 0, GIB

    torch._C._cuda_hasPrimaryContext = lambda _: True
    torch.cuda.mem_get_info = answer
    samples.take()
    assert [one["device"] for one in cards(samples)] == [1]
    assert len(samples.notes()["host_memory"]["times_us"]) == 1


def test_errors_do_not_reach_the_program(
    samples: Samples, torch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: int) -> None:
        raise RuntimeError("driver")

    torch.cuda.mem_get_info = fails
    samples.start()
    samples.stop()
    assert samples.guard.failures() == [
        {"doing": "sampling a card's memory", "error": "RuntimeError: driver", "count": 1}
    ]
    assert "sampling a card's memory failed (RuntimeError: driver)" in capsys.readouterr().err


def test_samples_do_not_disturb_the_capture_of_graphs(samples: Samples, torch: Any) -> None:
    mode = 0  # global: other threads' calls can make a capture fail
    seen: list[int] = []

    def exchange(pointer: Any) -> int:
        nonlocal mode
        mode, pointer._obj.value = pointer._obj.value, mode
        return 0

    asked = torch.cuda.mem_get_info

    def noticed(device: int) -> tuple[int, int]:
        seen.append(mode)
        return asked(device)  # type: ignore[no-any-return]

    torch.cuda.mem_get_info = noticed
    samples.exchange = exchange
    samples.take()
    assert (seen, mode) == ([module.RELAXED], 0)

    def fails(_: int) -> None:
        raise RuntimeError("driver")

    torch.cuda.mem_get_info = fails
    samples.take()
    assert mode == 0


def test_most_memory_outside_the_allocator(samples: Samples, torch: Any) -> None:
    assert samples.own_outside(0) is None
    samples.take()
    assert samples.own_outside(0) == (80 - 70 - 6 - 3) * GIB
    torch.cuda.free -= 5 * GIB
    samples.take()
    torch.cuda.free += 9 * GIB
    samples.lister = Listed(OTHER)  # an incomplete list
    torch.cuda.free -= 20 * GIB
    samples.take()
    assert samples.own_outside(0) == 6 * GIB
    assert samples.own_outside(1) is None


def test_torch_without_device_memory_still_has_host_memory(samples: Samples) -> None:
    samples.devices = SimpleNamespace()
    samples.take()
    notes = samples.notes()
    assert list(notes) == ["host_memory"]
    assert notes["host_memory"]["pinned_bytes"] == [None]


def test_thread_samples_until_it_is_stopped(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK", 0.001)
    monkeypatch.setattr(module, "SECONDS", 0.01)
    monkeypatch.setattr(module, "SHARE", 0)
    samples.start()
    assert samples.thread is not None
    assert samples.thread.daemon
    limit = time.monotonic() + 10
    while len(samples.cards[0].rows) < 5 and time.monotonic() < limit:
        time.sleep(0.01)
    samples.stop()
    there = len(samples.cards[0].rows)
    assert there >= 5
    time.sleep(0.05)
    assert len(samples.cards[0].rows) == there
    assert not samples.guard.failures()


@pytest.mark.parametrize("changing", [False, True])
def test_slow_samples_are_taken_less_often(
    samples: Samples, torch: Any, monkeypatch: pytest.MonkeyPatch, changing: bool
) -> None:
    taken: list[float] = []
    number = itertools.count()

    def slow() -> None:
        taken.append(time.monotonic())
        time.sleep(0.02)
        if len(taken) == 4:
            samples.ended.set()

    monkeypatch.setattr(module, "LOOK", 0.001)
    monkeypatch.setattr(module, "SECONDS", 0.01)
    monkeypatch.setattr(module, "SHARE", 5)
    monkeypatch.setattr(samples, "take", slow)
    if changing:
        torch.cuda.memory_reserved = lambda _: next(number)
    samples.run()
    assert len(taken) == 4
    assert all(after - before >= 0.02 * 6 for before, after in itertools.pairwise(taken))


def test_sample_follows_when_reserved_memory_changes(
    samples: Samples, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved = 0
    torch.cuda.memory_reserved = lambda _: reserved
    monkeypatch.setattr(module, "LOOK", 0.005)
    monkeypatch.setattr(module, "SECONDS", 1000.0)
    monkeypatch.setattr(module, "SHARE", 0)
    samples.start()
    rows = samples.cards[0].rows
    for count in range(1, 4):
        reserved = count << 20
        limit = time.monotonic() + 10
        while len(rows) <= count and time.monotonic() < limit:
            time.sleep(0.001)
        time.sleep(0.03)  # nothing changes now
        assert [row[2] for row in rows] == [one << 20 for one in range(count + 1)]
    samples.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
def test_forked_child_is_not_blocked_by_a_sample(samples: Samples, torch: Any) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(_: int) -> tuple[int, int]:
        inside.set()
        go_on.wait(0.2)
        return 0, 1

    torch.cuda.mem_get_info = slow
    thread = threading.Thread(target=samples.take)
    thread.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        held = module._lock.acquire(timeout=5)
        os._exit(0 if held else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert module._lock.acquire(blocking=False)
    module._lock.release()


def test_driver_that_hangs_does_not_stop_the_program(
    samples: Samples, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.05)
    inside, go_on = threading.Event(), threading.Event()

    def hangs(_: int) -> tuple[int, int]:
        inside.set()
        go_on.wait(10)
        return 0, 1

    torch.cuda.mem_get_info = hangs
    thread = threading.Thread(target=samples.take)
    thread.start()
    inside.wait(10)
    samples.take()  # gives up
    assert samples.notes() == {}
    go_on.set()
    thread.join()
    assert len(samples.cards[0].rows) == 1


def test_many_rows_are_thinned_but_the_lowest_stays() -> None:
    rows = Thinned(8, lambda row: row[1])
    for i in range(1000):
        rows.add((i, 5 if i == 321 else 10 + i % 7))
    assert len(rows.rows) <= 8
    times = [row[0] or 0 for row in rows.rows]
    assert times == sorted(times)
    assert times[-1] == 999
    assert (321, 5) in rows.rows
    assert rows.columns(("time", "free"))["time"] == times


def test_notes_stay_small_with_many_cards(torch: Any) -> None:
    torch.cuda.device_count = lambda: 64
    torch._C._cuda_hasPrimaryContext = lambda _: True
    samples = Samples(torch, "cuda", Guard(torch))
    samples.lister = Listed(OWN)
    for _ in range(600):
        samples.sample()
    notes = samples.notes()
    items = sum(
        len(one) for card in notes["card_memory"] for one in card.values() if type(one) is list
    )
    items += sum(len(one) for one in notes["host_memory"].values() if type(one) is list)
    assert items < 15_000  # a file's notes may have 100,000
