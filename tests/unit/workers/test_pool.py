"""A pool of processes says what a loop would, whatever its workers come to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memreplay.errors import MemreplayError, UsageError
from memreplay.workers import pool as module
from memreplay.workers.pool import LocalPool, processors
from memreplay.workers.running import Done, R, packed_item
from memreplay.workers.serial import Serial

from . import works

ROOT = Path(__file__).parents[3]


def sorted_of(done: Iterator[Done[R]]) -> list[Done[R]]:
    return sorted(done, key=lambda one: one.index)


def statuses(done: Iterator[Done[R]]) -> dict[int, str]:
    found = list(done)
    named: dict[int, str] = {one.index: one.status for one in found}
    assert len(named) == len(found)
    return named


def gone(number: int) -> bool:
    """Whether a process has ended; one that nobody asked how (a zombie) has."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def all_gone(numbers: list[int], seconds: float = 5) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if all(map(gone, numbers)):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("workers", [1, 3])
def test_it_says_what_a_loop_says(workers: int) -> None:
    items = list(range(300))
    with LocalPool(workers) as pool:
        found = sorted_of(pool.run(works.mixed, items))
    assert found == list(Serial().run(works.mixed, items))
    assert {one.status for one in found} == {"ok", "failed"}


def test_results_come_as_they_end() -> None:
    seconds = [0.3, 0, 0, 0]
    assert [one.index for one in LocalPool(2).run(works.who, seconds)][-1] == 0


def test_no_more_workers_than_items_and_none_for_none() -> None:
    assert list(LocalPool(8).run(works.square, [])) == []
    seen = {one.result for one in LocalPool(3).run(works.who, [0.05] * 12)}
    assert 1 < len(seen) <= 3
    assert os.getpid() not in seen


def test_thousands_of_items_with_one_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    packed_items = 0
    pack = packed_item

    def counted(index: int, item: object) -> bytes | Done[object]:
        nonlocal packed_items
        packed_items += 1
        return pack(index, item)

    monkeypatch.setattr(module, "packed_item", counted)
    most = 0
    for count, _ in enumerate(LocalPool(2).run(works.square, range(2000)), 1):
        most = max(most, packed_items - count)
    assert packed_items == 2000
    assert most <= 4


def test_a_worker_that_is_killed_takes_its_item_alone() -> None:
    found = list(LocalPool(2).run(works.dies_of_threes, range(30)))
    assert statuses(iter(found)) == {n: "died" if n % 10 == 3 else "ok" for n in range(30)}
    assert all(one.result == one.index for one in found if one.status == "ok")
    errors = {one.error for one in found if one.status == "died"}
    assert errors == {"its worker ended twice: SIGKILL, maybe for want of memory"}


def test_what_dies_once_is_done_again(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(30)]
    found = sorted_of(LocalPool(2).run(works.dies_once, items))
    assert found == [Done(number, number, "ok", "") for number in range(30)]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_it_is_done_again_with_no_other_beside(tmp_path: Path) -> None:
    """Those that died wait for all others, then for each other."""
    folder = tmp_path / "at work"
    folder.mkdir()
    items = [(str(folder), number < 3) for number in range(20)]
    found = list(LocalPool(3).run(works.how_many_at_once, items))
    assert [one.status for one in found] == ["ok"] * 17 + ["died"] * 3
    assert max(one.result or 0 for one in found) > 0
    beside = [one.read_text() for one in sorted(tmp_path.iterdir()) if one.is_file()]
    assert len(beside) == 6
    assert beside[3:] == ["0", "0", "0"]


@pytest.mark.slow
def test_a_worker_killed_from_outside(tmp_path: Path) -> None:
    run = LocalPool(2).run(works.who, [0.02] * 30)
    first = next(run)
    assert first.result is not None
    os.kill(first.result, signal.SIGKILL)
    found = [first, *run]
    assert statuses(iter(found)) == dict.fromkeys(range(30), "ok")


@pytest.mark.parametrize(
    "kind, status, error",
    [
        ("exit", "failed", "SystemExit: 3"),
        ("lines", "failed", r"ValueError: one two \x1b[31mthree\x00"),
        ("unpicklable error", "failed", "OddError: odd"),
        ("interrupt", "died", "its worker ended twice: exit code 1"),
    ],
)
def test_what_is_raised_is_a_line(kind: str, status: str, error: str) -> None:
    assert list(LocalPool(1).run(works.odd, [kind])) == [Done(0, None, status, error)]  # type: ignore[arg-type]


@pytest.mark.slow
def test_ends_that_are_no_signals_are_told() -> None:
    found: Done[Any]
    (found,) = LocalPool(1).run(os._exit, [5])
    assert (found.status, found.error) == ("died", "its worker ended twice: exit code 5")
    (found,) = LocalPool(1).run(works.shut, [None])
    assert found.error == "its worker ended twice: exit code 0"
    (found,) = LocalPool(1).run(signal.raise_signal, [signal.SIGRTMIN + 3])
    assert found.error == f"its worker ended twice: signal {signal.SIGRTMIN + 3}"


def test_items_that_cannot_be_sent() -> None:
    items = [1, lambda: None, 3, lambda: None]
    assert statuses(LocalPool(2).run(works.square, items)) == {  # type: ignore[arg-type]
        0: "ok",
        1: "failed",
        2: "ok",
        3: "failed",
    }


def test_items_and_results_of_any_size() -> None:
    items = [bytes(number * 300_000) for number in range(8)]
    found = sorted_of(LocalPool(2).run(bytes, items))
    assert [one.result for one in found] == items


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_memory_is_bounded() -> None:
    enough, more = 10 << 20, 300 << 20
    items = [enough, more, enough + 1, more + 1, enough, enough]
    pool = LocalPool(2, memory_bytes=100 << 20)
    assert statuses(pool.run(works.takes, items)) == {
        0: "ok",
        1: "memory",
        2: "ok",
        3: "memory",
        4: "ok",
        5: "ok",
    }
    # Those that had too much are replaced, and the same is no more than too much again.
    found = list(LocalPool(1, memory_bytes=100 << 20).run(works.takes, [more] * 3))
    assert {(one.status, one.error) for one in found} == {("memory", "out of memory")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_what_a_worker_did_before_is_in_nobodys_way() -> None:
    """Whether an item has enough does not depend on which others its worker had."""
    size = 40 << 20
    found = list(LocalPool(1, memory_bytes=100 << 20).run(works.leaves_and_takes, [size] * 7))
    assert [one.status for one in sorted(found, key=lambda one: one.index)] == ["ok"] * 7


@pytest.mark.slow
def test_where_memory_has_no_bound_others_may_have_had_it(tmp_path: Path) -> None:
    pool = LocalPool(2)
    found = statuses(pool.run(works.short_once, [(str(tmp_path), number) for number in range(4)]))
    assert found == dict.fromkeys(range(4), "ok")


def test_nothing_is_left_of_what_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert len(list(LocalPool(1).run(works.prints, range(3)))) == 3
    assert capfd.readouterr() == ("", "")


def test_workers_end_with_the_iterator_and_with_the_pool(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(3)]
    pool = LocalPool(3)
    run = pool.run(works.first_ends, items)
    assert next(run).index == 0
    numbers = pids(tmp_path, 2)
    run.close()  # type: ignore[attr-defined]
    assert all_gone(numbers, 1)

    for one in tmp_path.iterdir():
        one.unlink()
    run = pool.run(works.first_ends, items)
    assert next(run).index == 0
    numbers = pids(tmp_path, 2)
    pool.close()
    assert all_gone(numbers, 1)


def pids(folder: Path, count: int) -> list[int]:
    """The processes that have noted themselves there, once there are so many."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        noted = list(folder.glob("*.pid"))
        if len(noted) == count:
            return [int(one.read_text()) for one in noted]
        time.sleep(0.01)
    raise AssertionError(f"{len(noted)} processes of {count}")


# No guard: workers must not load it.
PROGRAM = """
import sys
from memreplay.workers.pool import LocalPool
from tests.unit.workers import works
folder = sys.argv[1]
try:
    list(LocalPool(2).run(works.notes_and_sleeps, [(folder, 0), (folder, 1)]))
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


def test_ctrl_c_ends_all_without_a_word(program: subprocess.Popen[str], tmp_path: Path) -> None:
    numbers = pids(tmp_path, 2)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    assert program.communicate(timeout=10) == ("stopped\n", "")
    assert all_gone(numbers)


def test_workers_end_when_the_pools_process_is_killed(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    numbers = pids(tmp_path, 2)
    program.kill()
    assert program.communicate(timeout=10) == ("", "")
    assert all_gone(numbers)


def test_ctrl_c_while_workers_start(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "from memreplay.workers.pool import LocalPool, _Crew\n"
        "give = _Crew._who_speaks\n"
        "def interrupted(crew):\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "    return give(crew)\n"
        "_Crew._who_speaks = interrupted\n"
        "try:\n    list(LocalPool(2).run(abs, [1, 2]))\n"
        "except KeyboardInterrupt:\n    print('stopped')\n"
    )
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=False,
            text=True,
            start_new_session=True,
            timeout=10,
        )
        assert (ended.stdout, ended.stderr) == ("stopped\n", "")


def test_what_workers_cannot_load_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(works, "late", works.square, raising=False)
    monkeypatch.setattr(works.square, "__name__", "late")
    monkeypatch.setattr(works.square, "__qualname__", "late")
    with pytest.raises(MemreplayError, match=r"^a worker cannot begin: AttributeError: .*late"):
        list(LocalPool(2).run(works.square, [1, 2, 3]))


def test_no_more_workers_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that there are go on; without any it is an error."""
    start = subprocess.Popen
    started: list[Any] = []

    def limited(*args: Any, **options: Any) -> Any:
        if len(started) == most:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(start(*args, **options))
        return started[-1]

    most = 1
    monkeypatch.setattr(subprocess, "Popen", limited)
    assert [one.result for one in LocalPool(3).run(works.square, range(4))] == [0, 1, 4, 9]
    most = 1
    with pytest.raises(MemreplayError, match="cannot start a worker: BlockingIOError"):
        list(LocalPool(3).run(works.square, range(4)))


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_standard_streams_that_are_closed(closed: tuple[int, ...], tmp_path: Path) -> None:
    """What a worker says on stderr is never an answer."""
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
sys.path.append(Path("nowhere"))
for one in {closed}:
    os.close(one)
from memreplay.workers.pool import LocalPool
from tests.unit.workers import works
found = sorted(one.result for one in LocalPool(2).run(works.complains, range(20)))
Path({str(tmp_path)!r}, "said").write_text(str(found == list(range(20))))
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (tmp_path / "said").read_text() == "True"


def test_functions_that_no_worker_can_have() -> None:
    with pytest.raises(UsageError, match="no worker can be given this function"):
        list(LocalPool(1).run(lambda x: x, [1]))
    work = type("Work", (), {"__module__": "__main__", "__call__": abs})()
    with pytest.raises(UsageError, match="no process can load a function of __main__"):
        list(LocalPool(1).run(work, [1]))


def test_workers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(MemreplayError, match=r"^workers end before they are ready: exit code 1$"):
        list(LocalPool(2).run(works.square, range(9)))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(MemreplayError, match=r"^cannot start a worker: FileNotFoundError: "):
        list(LocalPool(2).run(works.square, range(9)))


def test_what_is_asked_for_must_be_possible() -> None:
    with pytest.raises(UsageError, match="at least one worker, not 0"):
        LocalPool(0)
    with pytest.raises(UsageError, match="needs memory, not 0 bytes"):
        LocalPool(1, memory_bytes=0)


def test_as_many_workers_as_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(module, "open", lambda *_, **__: quota.open(), raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)), raising=False)
    assert processors() == LocalPool().workers == 7  # no such file
    for text, count in [("max 100000", 7), ("250000 100000", 3), ("9000000 100000", 7)]:
        quota.write_text(text + "\n")
        assert processors() == count
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors() == 1
