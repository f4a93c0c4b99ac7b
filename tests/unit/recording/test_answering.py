"""The recorder's answers to `memreplay watch --live`, with a stand-in for a session."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memreplay.live.recordings import ask_for_snapshot, recordings
from memreplay.live.result import LiveRecording
from memreplay.recording import answering as module
from memreplay.recording.answering import Answering, is_allowed
from memreplay.recording.guarding import Guard
from memreplay.recording.processes import Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

GIB = 1 << 30


class Card:
    """torch.cuda with one device, which grows while it's asked."""

    def __init__(self) -> None:
        self.reserved, self.growing = 6 * GIB, 1

    def memory_reserved(self, _: int) -> int:
        return self.reserved

    def mem_get_info(self, _: int) -> tuple[int, int]:
        if self.growing:
            self.growing -= 1
            self.reserved += GIB
        return 80 * GIB - self.reserved, 80 * GIB

    def memory_allocated(self, _: int) -> int:
        return 5 * GIB

    max_memory_allocated, max_memory_reserved = memory_allocated, memory_reserved

    def get_device_properties(self, _: int) -> Any:
        return SimpleNamespace(name="A card", uuid="1234")


def make_session(**more: Any) -> Any:
    samples = SimpleNamespace(
        exchange=None,
        used=lambda: [0],
        listed=lambda _: [Process(os.getpid(), "python", 8 * GIB)],
        why_not={},
    )
    return SimpleNamespace(
        guard=Guard(),
        samples=samples,
        devices=Card(),
        noting=SimpleNamespace(steps=SimpleNamespace(count=17)),
        ranks=lambda: (3, 8),
        wanted="snap.pickle",
        rotation=None,
        dumping=False,
        signalled=lambda *_: None,
        **more,
    )


@pytest.fixture
def answering() -> Iterator[Answering]:
    made = Answering(make_session())
    made.start()
    yield made
    made.stop()


def mine() -> list[LiveRecording]:
    return [one for one in recordings() if one.pid == os.getpid()]


def test_recording_describes_itself(answering: Answering) -> None:
    answering.wrote("a.pickle")
    (found,) = mine()
    assert (found.rank, found.step_count, found.is_dryrun, found.can_dump) == (3, 17, False, False)
    assert (found.file, found.last_file) == tuple(map(os.path.abspath, ("snap.pickle", "a.pickle")))
    (device,) = found.devices
    assert (device.device, device.name, device.uuid) == (0, "A card", "1234")
    assert (device.allocated_bytes, device.reserved_bytes) == (5 * GIB, 7 * GIB)
    assert device.free_bytes == 80 * GIB - 7 * GIB  # of the same moment
    assert [one.bytes for one in device.processes] == [8 * GIB]


def test_nothing_is_left_at_the_end(answering: Answering) -> None:
    assert len(mine()) == 1
    answering.stop()
    assert mine() == []
    answering.stop()
    answering.start()
    assert len(mine()) == 1


def test_client_that_says_nothing_does_not_block(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    assert answering.listener is not None
    name = answering.listener.getsockname()
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as odd:
        silent.connect(name)
        odd.connect(name)
        odd.sendall(b"x")
        assert odd.recv(10) == b""
        assert len(mine()) == 1
    assert answering.session.guard.failures() == []


def test_other_users_get_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert is_allowed(one)
        monkeypatch.setattr(module, "owner", lambda _: (1, os.getuid() + 1))
        assert not is_allowed(one)
        monkeypatch.setattr(module, "owner", lambda _: (1, 0))
        assert is_allowed(one)


def test_snapshot_is_written_by_the_main_thread(answering: Answering) -> None:
    assert "handles SIGUSR1 itself" in ask_for_snapshot(os.getpid())
    asked = []
    session: Any = answering.session
    session.signalled = lambda *_: asked.append(answering.asked)
    before = signal.signal(signal.SIGUSR1, session.signalled)
    try:
        assert ask_for_snapshot(os.getpid()) == ""
        assert asked == [True]
        (found,) = mine()
        assert found.can_dump
        assert found.is_dumping
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_forked_child_does_not_answer(answering: Answering) -> None:
    child = os.fork()
    if not child:
        answering.stop()  # a forked child may stop the recording
        os._exit(0 if answering.listener is None and not mine_of_child() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(mine()) == 1


def mine_of_child() -> bool:
    return any(one.fileno() >= 0 for one in module._listening)


def test_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = SimpleNamespace(__spec__=None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py"), "--lr", "1"])
    assert module.name_of_program() == "train.py"
    main.__spec__ = SimpleNamespace(name="torchtitan.train.__main__")
    assert module.name_of_program() == "torchtitan.train"
    main.__spec__ = None
    monkeypatch.setattr(sys, "argv", [])
    assert module.name_of_program() == "python"
