"""Work in a forked process ends at its limits, and with whoever waits for it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from memreplay.errors import UsageError
from memreplay.workers import contained as module
from memreplay.workers.contained import Bounds, Contained

BOUNDS = Bounds(256 << 20, 20.0, threads=1, memory_advice="ask less", time_advice="hurry")


def done(work: Callable[[IO[bytes]], object], bounds: Bounds = BOUNDS) -> bytes:
    with Contained(work, bounds) as running:
        return b"".join(running)


def refusal(work: Callable[[IO[bytes]], object], bounds: Bounds = BOUNDS) -> str:
    with pytest.raises(UsageError) as caught:
        done(work, bounds)
    return str(caught.value)


def spin(_: IO[bytes]) -> None:
    while True:
        pass


def sleep(_: IO[bytes]) -> None:
    time.sleep(1000)


def test_bytes_arrive() -> None:
    data = os.urandom(3_000_000)
    assert done(lambda out: out.write(data)) == data
    assert done(lambda _: None) == b""


def test_errors_of_the_work_are_raised_here() -> None:
    def refuse(out: IO[bytes]) -> None:
        out.write(b"some")
        raise UsageError("no such table")

    def fail(_: IO[bytes]) -> None:
        raise KeyError("a bug")

    assert refusal(refuse) == "no such table"
    with pytest.raises(RuntimeError, match="KeyError: 'a bug'"):
        done(fail)
    long = "x" * 1_000_000
    assert refusal(lambda _: (_ for _ in ()).throw(UsageError(long))).startswith("xxx")


def test_memory_is_limited() -> None:
    words = "the query needs more than 256.0 MiB of memory; ask less"
    assert refusal(lambda _: bytearray(300 << 20)) == words
    assert done(lambda out: out.write(b"%d" % len(bytearray(200 << 20)))) == b"209715200"


def test_memory_is_limited_where_the_kernel_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS: the process looks at its own memory."""
    monkeypatch.setattr(module, "bound_memory", lambda _: False)

    def grow(_: IO[bytes]) -> None:
        kept = []
        while True:
            kept.append(os.urandom(1 << 20))

    assert refusal(grow) == "the query needs more than 256.0 MiB of memory; ask less"


@pytest.mark.parametrize("work", [spin, sleep])
def test_time_is_limited(work: Callable[[IO[bytes]], object]) -> None:
    start = time.monotonic()
    words = "the query took longer than 0.5 s and was stopped; hurry"
    assert refusal(work, BOUNDS._replace(seconds=0.5)) == words
    assert time.monotonic() - start < 30


def test_child_ends_itself_if_nobody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent may be stopped, or wait for its own output."""
    monkeypatch.setattr(Contained, "kill", lambda _: None)
    words = "the query took longer than 0.5 s and was stopped; hurry"
    assert refusal(sleep, BOUNDS._replace(seconds=0.5)) == words


def test_cpu_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_cpu_seconds", lambda _: 1)
    assert (
        refusal(spin, BOUNDS._replace(seconds=60))
        == "the query used more than 1 s of CPU time and was stopped; hurry"
    )


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_crash_is_an_error(number: signal.Signals) -> None:
    said = refusal(lambda _: os.kill(os.getpid(), number))
    assert said.startswith(f"the query crashed DuckDB ({number.name}), at its limit of 256.0 MiB")
    said = refusal(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    assert said == "the query was killed, likely because memory ran out; ask less"


def test_child_cannot_write_files(tmp_path: Path) -> None:
    file = tmp_path / "x"

    def write(_: IO[bytes]) -> None:
        file.write_bytes(b"data")

    with pytest.raises(RuntimeError, match="File too large"):
        done(write)
    assert file.read_bytes() == b""
    done(write, BOUNDS._replace(may_write=True))
    assert file.read_bytes() == b"data"


def test_child_leaves_no_core_and_goes_first() -> None:
    def limits(out: IO[bytes]) -> None:
        import resource

        out.write(f"{resource.getrlimit(resource.RLIMIT_CORE)[0]} ".encode())
        out.write(Path("/proc/self/oom_score_adj").read_bytes())

    core, score = done(limits).split()
    assert core == b"0"
    assert int(score) == min(int(Path("/proc/self/oom_score_adj").read_text()) + 500, 1000)


def test_long_work_lets_others_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEFERS_AFTER_SECONDS", 0.1)

    def nice(out: IO[bytes]) -> None:
        ready = threading.Event()
        seen: list[int] = []

        def look() -> None:
            ready.wait(10)
            seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

        other = threading.Thread(target=look)
        other.start()
        time.sleep(1)
        ready.set()
        other.join()
        out.write(f"{os.nice(0)} {seen[0]}".encode())

    now = os.nice(0)
    expected = min(now + 5, 19)
    assert done(nice, BOUNDS._replace(defers=True)) == f"{expected} {expected}".encode()


def test_child_ends_if_nobody_waits() -> None:
    ours, theirs = socket.socketpair()

    def work(out: IO[bytes]) -> None:
        ours.close()  # the child's copy
        sleep(out)

    with theirs:
        threading.Timer(0.3, ours.close).start()
        with Contained(work, BOUNDS, gone=theirs.fileno()) as running:
            pid = running._pid
            with pytest.raises(UsageError, match="nobody waits"):
                list(running)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_leaving_early_ends_the_child() -> None:
    def endless(out: IO[bytes]) -> None:
        while True:
            out.write(bytes(1 << 16))

    with Contained(endless, BOUNDS) as running:
        pid = running._pid
        next(iter(running))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_child_ends_with_its_parent() -> None:
    code = (
        "import os, time\n"
        "from memreplay.workers.contained import Bounds, Contained\n"
        "def work(out):\n"
        "    out.write(b'%d' % os.getpid()); out.flush(); time.sleep(1000)\n"
        "with Contained(work, Bounds(1 << 28, 1000, 1)) as running:\n"
        "    print(next(iter(running)).decode(), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, stdout=subprocess.PIPE, timeout=60
    )
    child = os.pidfd_open(int(ended.stdout)) if _is_there(int(ended.stdout)) else None
    if child is not None:
        assert select.select([child], [], [], 10)[0]
        os.close(child)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
