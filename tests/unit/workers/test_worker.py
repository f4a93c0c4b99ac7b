"""Tests that run the code of a pool's worker process step by step, in this process."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import socket
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from memreplay.workers import worker
from memreplay.workers.running import heard, packed

from . import works


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record a worker's actions on its own process, instead of carrying them out."""
    done: list[object] = []
    monkeypatch.setattr(worker, "_end_with", lambda number: done.append("watches"))
    monkeypatch.setattr(worker, "be_the_first_to_go", lambda: done.append("first to go"))
    monkeypatch.setattr(worker, "bound_memory", done.append)
    monkeypatch.setattr(signal, "signal", lambda *what: done.append(what))
    return done


def answers(*said: bytes) -> list[bytes]:
    """Return a worker's answers to these items, before it exits."""
    ours, theirs = Pipe()
    for message in said:
        ours.send_bytes(message)
    with socket.socket(fileno=os.dup(ours.fileno())) as same:
        same.shutdown(socket.SHUT_WR)  # nothing more is sent, but answers are received
    number = os.dup(theirs.fileno())
    theirs.close()
    worker.main(number)
    found = []
    with suppress(EOFError), ours:
        while True:
            found.append(ours.recv_bytes())
    return found


def test_worker_announces_itself_then_answers(harmless: list[object]) -> None:
    orders = packed((packed(works.square), 1 << 20))
    ready, first, second = answers(orders, packed(3), packed("x"))
    assert ready == b""
    assert heard(0, first).result == 9
    assert heard(1, second).status == "failed"
    ignored = (signal.SIGINT, signal.SIG_IGN)
    assert harmless == [ignored, "watches", "first to go", 1 << 20]


def test_import_failure_is_reported(harmless: list[object]) -> None:
    missing = pickle.dumps(works.square).replace(b"square", b"circle")
    (why,) = answers(packed((missing, None)))
    assert why.startswith(b"AttributeError: ")
    assert b"circle" in why


def test_memory_limit_is_added_to_the_current_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def has() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmData:")[2].split()[0])

    asked: list[tuple[int, int]] = []
    before = has()
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: asked.append(pair))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (-1, resource.RLIM_INFINITY))
    worker.bound_memory(1 << 30)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (-1, 5000))
    worker.bound_memory(1 << 30)
    (limit, most), (least, kept) = asked
    assert before - (1 << 20) <= limit - (1 << 30) <= has() + (1 << 20)
    assert most == resource.RLIM_INFINITY
    assert (least, kept) == (5000, 5000)  # not above the system administrator's limit


def test_worker_is_more_likely_to_be_killed_than_the_pool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    score = tmp_path / "score"
    monkeypatch.setattr(
        worker, "open", lambda name, *rest, **more: score.open(*rest), raising=False
    )
    worker.be_the_first_to_go()  # does nothing if the file doesn't exist
    for before, after in [("0", "500"), ("900", "1000")]:
        score.write_text(before)
        worker.be_the_first_to_go()
        assert score.read_text() == after
