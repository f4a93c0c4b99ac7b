"""Find the recordings that this user's processes run, and ask them."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator

from msgspec import ValidationError, convert
from msgspec.structs import replace

from memreplay.live.result import LiveRecording
from memreplay.recording.answering import DUMP, PREFIX, STATE, owner

SOCKETS = "/proc/net/unix"  # one line per socket; abstract names begin with @
PATIENCE_S = 0.5  # for one recording; one that takes longer is left out
PATIENCE_ALL_S = 2.0
LARGEST = 1 << 20  # bytes of an answer


def recordings() -> tuple[LiveRecording, ...]:
    """Return this user's recordings, by process id."""
    until = time.monotonic() + PATIENCE_ALL_S
    found = (asked(name, STATE) for name in names() if time.monotonic() < until)
    return tuple(sorted(filter(None, map(valid, found)), key=lambda one: one.pid))


def ask_for_snapshot(pid: int) -> str:
    """Ask a recording for a snapshot with the holders. Return why the request failed, or ""."""
    for name in names():
        told, answer = asked(name, STATE)
        if told == pid and answer is not None:
            said = asked(name, DUMP)[1]
            error = "it doesn't answer" if said is None else said.get("error")
            return error if isinstance(error, str) else ""
    return "the recording has ended"


def names() -> Iterator[str]:
    """Yield the abstract sockets that may belong to recorders."""
    if sys.platform != "linux":
        return
    try:
        with open(SOCKETS, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for name in sorted({line.rpartition(" ")[2] for line in lines}):
        if name.startswith(f"@{PREFIX}"):
            yield name[1:]


def asked(name: str, question: bytes) -> tuple[int, dict[str, object] | None]:
    """Ask one recorder. Return its process, and its answer; None if it's another user's, or
    doesn't answer in time.
    """
    until = time.monotonic() + PATIENCE_S
    pid, answer = 0, b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(f"\0{name}")
            pid, user = owner(connection)
            if user != os.getuid():  # anyone can take the name
                return 0, None
            connection.sendall(question)
            while part := connection.recv(1 << 16):
                answer += part
                if time.monotonic() > until or len(answer) > LARGEST:
                    return 0, None
        said = json.loads(answer)
    except (OSError, ValueError, RecursionError):
        return 0, None
    return pid, said if isinstance(said, dict) else None


def valid(found: tuple[int, dict[str, object] | None]) -> LiveRecording | None:
    """Validate an answer. The kernel's process id is better than what the process says, but 0 in
    another container.
    """
    pid, said = found
    try:
        recording = convert(said, LiveRecording)
    except ValidationError:
        return None
    return replace(recording, pid=pid or recording.pid)
