"""Finding recordings: of this user only, whatever is at the other end."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import to_builtins

from memreplay.live import recordings as module
from memreplay.live.recordings import ask_for_snapshot, recordings
from memreplay.recording.answering import PREFIX
from tests.unit.live.machine import recording

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

Answer = Callable[[socket.socket], None]


@contextlib.contextmanager
def recorder(answer: Answer, name: str = "") -> Iterator[None]:
    """Listen as a recorder does, and answer in this way."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{PREFIX}{name or os.getpid()}-{secrets.token_hex(4)}")
        listener.listen()

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    answer(connection)

        threading.Thread(target=run, daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def says(said: Any) -> Answer:
    text = said if isinstance(said, bytes) else json.dumps(said).encode()

    def answer(connection: socket.socket) -> None:
        connection.recv(1)
        connection.sendall(text)

    return answer


def mine() -> list[str]:
    """Return the names of the recordings in this process, because others may be running."""
    return [one.name for one in recordings() if one.pid == os.getpid()]


def told(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = to_builtins(recording(**changes))
    return found


def test_recording_is_found() -> None:
    with recorder(says(told(pid=7, name="mine.py"))):  # the kernel knows the process better
        assert mine() == ["mine.py"]
    assert mine() == []


def test_keys_of_newer_versions_are_ignored() -> None:
    with recorder(says(told() | {"newer": 1})):
        assert mine() == ["train.py"]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"pid": 1}',
        told() | {"pid": "x"},
        told() | {"name": "x" * 10_000},
        told() | {"devices": [{"device": -1}]},
        [],
        7,
    ],
)
def test_broken_answers_are_left_out(said: Any) -> None:
    with recorder(says(said)):
        assert mine() == []


def test_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)

    def endless(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"[" * 1000)

    with recorder(endless):
        assert mine() == []


def test_silent_recorders_take_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.5)
    monkeypatch.setattr(module, "PATIENCE_ALL_S", 0.3)
    with contextlib.ExitStack() as stack:
        for i in range(20):
            stack.enter_context(recorder(lambda _: time.sleep(2), f"0{i}"))
        began = time.monotonic()
        recordings()
        assert time.monotonic() - began < 8  # 20 recorders with 0.5 s each take 10 s


def test_other_users_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    with recorder(lambda connection: asked.append(connection.recv(1))):
        monkeypatch.setattr(module, "owner", lambda _: (os.getpid(), os.getuid() + 1))
        assert mine() == []
        time.sleep(0.05)
    assert asked in ([], [b""])


def test_ask_for_a_snapshot() -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        asked.append(connection.recv(1))
        said = {"error": "not now"} if asked[-1] == b"d" else told()
        connection.sendall(json.dumps(said).encode())

    with recorder(answer):
        assert ask_for_snapshot(os.getpid()) == "not now"
    assert b"d" in asked
    assert ask_for_snapshot(os.getpid()) == "the recording has ended"


def test_without_a_list_of_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOCKETS", "/proc/none")
    assert recordings() == ()
