"""Tests of io/parallel.py: what starts threads, and what happens if none can start."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from memreplay.io.inline import Inline
from memreplay.io.parallel import Beside, executor, has_processes, started


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_work_runs_on_threads() -> None:
    with executor(3) as pool:
        assert isinstance(pool, ThreadPoolExecutor)
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        assert pool.submit(threading.get_ident).result() != threading.get_ident()
    done: list[int] = []
    thread = Thread(target=done.append, args=(1,))
    assert started(thread)
    thread.join()
    assert done == [1]


@pytest.mark.usefixtures("no_threads")
def test_work_is_done_at_once_if_no_thread_can_start() -> None:
    assert not started(Thread(target=int))
    with executor(3) as pool:
        assert isinstance(pool, Inline)
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        assert pool.submit(threading.get_ident).result() == threading.get_ident()


def test_one_function_runs_on_its_own_thread() -> None:
    beside = Beside(threading.get_ident)
    beside.wait()
    assert beside.result() not in (threading.get_ident(), None)
    assert beside.result() == beside.result()
    with pytest.raises(ZeroDivisionError):
        Beside(lambda: 1 // 0).result()


@pytest.mark.usefixtures("no_threads")
def test_one_function_is_called_at_once_if_no_thread_can_start() -> None:
    called: list[int] = []
    beside = Beside(lambda: called.append(threading.get_ident()))
    assert called == [threading.get_ident()]
    beside.wait()
    assert beside.result() is None
    with pytest.raises(ZeroDivisionError):
        Beside(lambda: 1 // 0).result()


def test_webassembly_has_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_processes()
    monkeypatch.setattr(sys, "platform", "emscripten")
    assert not has_processes()
