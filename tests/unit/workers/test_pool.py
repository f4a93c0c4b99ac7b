"""A pool of processes gives the same results as a loop, whatever happens to its workers."""

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
    """Return whether a process has ended; a zombie counts as ended."""
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
def test_results_match_those_of_a_loop(workers: int) -> None:
    items = list(range(300))
    with LocalPool(workers) as pool:
        found = sorted_of(pool.run(works.mixed, items))
    assert found == list(Serial().run(works.mixed, items))
    assert {one.status for one in found} == {"ok", "failed"}


def test_results_arrive_as_they_finish() -> None:
    seconds = [0.3, 0, 0, 0]
    assert [one.index for one in LocalPool(2).run(works.who, seconds)][-1] == 0


def test_pool_starts_at_most_one_worker_per_item() -> None:
    assert list(LocalPool(8).run(works.square, [])) == []
    seen = {one.result for one in LocalPool(3).run(works.who, [0.05] * 12)}
    assert 1 < len(seen) <= 3
    assert os.getpid() not in seen


def test_thousands_of_items_are_packed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_killed_worker_loses_only_its_item() -> None:
    found = list(LocalPool(2).run(works.dies_of_threes, range(30)))
    assert statuses(iter(found)) == {n: "died" if n % 10 == 3 else "ok" for n in range(30)}
    assert all(one.result == one.index for one in found if one.status == "ok")
    errors = {one.error for one in found if one.status == "died"}
    assert errors == {"its worker ended twice: SIGKILL, maybe out of memory"}


def test_item_that_kills_a_worker_once_is_retried(tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(30)]
    found = sorted_of(LocalPool(2).run(works.dies_once, items))
    assert found == [Done(number, number, "ok", "") for number in range(30)]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_retry_runs_without_other_workers(tmp_path: Path) -> None:
    """Items whose worker died run last, and one at a time."""
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
def test_item_of_a_killed_worker_is_retried(tmp_path: Path) -> None:
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
def test_exception_takes_one_line(kind: str, status: str, error: str) -> None:
    assert list(LocalPool(1).run(works.odd, [kind])) == [Done(0, None, status, error)]  # type: ignore[arg-type]


@pytest.mark.slow
def test_exit_codes_and_signals_of_workers_are_reported() -> None:
    found: Done[Any]
    (found,) = LocalPool(1).run(os._exit, [5])
    assert (found.status, found.error) == ("died", "its worker ended twice: exit code 5")
    (found,) = LocalPool(1).run(works.shut, [None])
    assert found.error == "its worker ended twice: exit code 0"
    (found,) = LocalPool(1).run(signal.raise_signal, [signal.SIGRTMIN + 3])
    assert found.error == f"its worker ended twice: signal {signal.SIGRTMIN + 3}"


def test_item_that_cannot_be_sent_is_a_failure() -> None:
    items = [1, lambda: None, 3, lambda: None]
    assert statuses(LocalPool(2).run(works.square, items)) == {  # type: ignore[arg-type]
        0: "ok",
        1: "failed",
        2: "ok",
        3: "failed",
    }


def test_items_and_results_may_have_any_size() -> None:
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
    # Workers that used too much memory are replaced; only items that are too large fail again.
    found = list(LocalPool(1, memory_bytes=100 << 20).run(works.takes, [more] * 3))
    assert {(one.status, one.error) for one in found} == {("memory", "out of memory")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux alone")
def test_earlier_memory_of_a_worker_does_not_count() -> None:
    """Whether an item has enough memory doesn't depend on its worker's earlier items."""
    size = 40 << 20
    found = list(LocalPool(1, memory_bytes=100 << 20).run(works.leaves_and_takes, [size] * 7))
    assert [one.status for one in sorted(found, key=lambda one: one.index)] == ["ok"] * 7


@pytest.mark.slow
def test_item_short_of_memory_is_retried_without_a_memory_limit(tmp_path: Path) -> None:
    pool = LocalPool(2)
    found = statuses(pool.run(works.short_once, [(str(tmp_path), number) for number in range(4)]))
    assert found == dict.fromkeys(range(4), "ok")


def test_printed_output_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    assert len(list(LocalPool(1).run(works.prints, range(3)))) == 3
    assert capfd.readouterr() == ("", "")


def test_workers_exit_when_the_iterator_or_the_pool_is_closed(tmp_path: Path) -> None:
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
    """Return the registered processes, once there are this many."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        noted = list(folder.glob("*.pid"))
        if len(noted) == count:
            return [int(one.read_text()) for one in noted]
        time.sleep(0.01)
    raise AssertionError(f"{len(noted)} processes of {count}")


# The script has no `__main__` guard, because workers must not import it.
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


def test_ctrl_c_ends_all_processes_quietly(program: subprocess.Popen[str], tmp_path: Path) -> None:
    numbers = pids(tmp_path, 2)
    os.killpg(program.pid, signal.SIGINT)  # like a terminal
    assert program.communicate(timeout=10) == ("stopped\n", "")
    assert all_gone(numbers)


def test_workers_exit_if_the_pools_process_is_killed(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    numbers = pids(tmp_path, 2)
    program.kill()
    assert program.communicate(timeout=10) == ("", "")
    assert all_gone(numbers)


def test_ctrl_c_during_worker_startup_ends_quietly(tmp_path: Path) -> None:
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


def test_unloadable_function_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(works, "late", works.square, raising=False)
    monkeypatch.setattr(works.square, "__name__", "late")
    monkeypatch.setattr(works.square, "__qualname__", "late")
    with pytest.raises(MemreplayError, match=r"^a worker can't start: AttributeError: .*late"):
        list(LocalPool(2).run(works.square, [1, 2, 3]))


def test_worker_that_cannot_start_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other workers continue; if none can start, it's an error."""
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
    with pytest.raises(MemreplayError, match="can't start a worker: BlockingIOError"):
        list(LocalPool(3).run(works.square, range(4)))


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_pool_works_with_closed_standard_streams(closed: tuple[int, ...], tmp_path: Path) -> None:
    """A worker's stderr is never taken for an answer."""
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


def test_function_that_cannot_be_sent_is_an_error() -> None:
    with pytest.raises(UsageError, match="this function can't be sent to workers:"):
        list(LocalPool(1).run(lambda x: x, [1]))
    work = type("Work", (), {"__module__": "__main__", "__call__": abs})()
    with pytest.raises(
        UsageError, match="workers can't import a function from __main__; move it to a module"
    ):
        list(LocalPool(1).run(work, [1]))


def test_workers_that_do_not_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(MemreplayError, match=r"^workers exit before they are ready: exit code 1$"):
        list(LocalPool(2).run(works.square, range(9)))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(MemreplayError, match=r"^can't start a worker: FileNotFoundError: "):
        list(LocalPool(2).run(works.square, range(9)))


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(UsageError, match="at least one worker, not 0"):
        LocalPool(0)
    with pytest.raises(UsageError, match="needs memory, not 0 bytes"):
        LocalPool(1, memory_bytes=0)


def test_default_is_one_worker_per_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
