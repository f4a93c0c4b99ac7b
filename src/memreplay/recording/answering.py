"""Tell `memreplay watch --live`, which runs in another process, about the recording.

The recorder listens on an abstract Unix socket of Linux, which needs no file and ends with the
process. A client writes one byte, gets a JSON object, and the connection is closed. Only the same
user and root get an answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any

from memreplay.io.urls import is_url
from memreplay.recording.memory_samples import TRIES, alone, captures_allowed

PREFIX = "memreplay-recorder-"
STATE, DUMP = b"s", b"d"
CREDENTIALS = struct.Struct("3i")  # Linux's struct ucred: process id, user, group
PATIENCE_S = 1.0  # how long a client may take
HELD = 5  # number of holders to tell
LONGEST = 200  # maximum length of a name, in characters

_listening: set[socket.socket] = set()


def _forked() -> None:
    """Close the parent's sockets in a forked child, which doesn't answer."""
    while _listening:
        _listening.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Answering:
    """Answers for one recording (a `Session`), in a thread, between `start` and `stop`."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.listener: socket.socket | None = None
        self.began_us = 0
        self.answers = {STATE: self.state, DUMP: self.ask_for_snapshot}
        self.asked = False
        """Whether a client waits for a snapshot, with the holders."""
        self.holders: list[dict[str, Any]] = []
        """The largest holders in the last snapshot that has any."""
        self.last, self.last_us = "", 0
        """The last file that was written, and when."""

    def start(self) -> None:
        self.began_us = time.time_ns() // 1000
        if sys.platform == "linux":
            with contextlib.suppress(OSError, RuntimeError):  # no sockets, no more threads
                self.listen()

    def listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"\0{PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
        listener.listen(8)
        self.listener = listener
        _listening.add(listener)
        threading.Thread(target=self.run, args=(listener,), name="memreplay", daemon=True).start()

    def stop(self) -> None:
        listener, self.listener = self.listener, None
        if listener in _listening:  # not in a forked child, which would stop its parent's
            _listening.discard(listener)
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # ends the thread's accept()
            listener.close()

    def run(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if listener.fileno() < 0 or self.listener is not listener:
                    return
                time.sleep(PATIENCE_S)  # e.g. no more file descriptors
                continue
            with connection, contextlib.suppress(OSError):  # a client that's slow or has gone
                connection.settimeout(PATIENCE_S)
                if not is_allowed(connection):
                    continue
                answer = self.answers.get(connection.recv(1))
                if answer is not None:
                    said = self.session.guard.run("answering memreplay watch", answer)
                    connection.sendall(json.dumps(said).encode())

    @property
    def can_dump(self) -> bool:
        """Whether a signal makes the main thread write a snapshot. Another thread can't, because
        the program may be allocating.
        """
        return bool(signal.getsignal(signal.SIGUSR1) == self.session.signalled)

    def ask_for_snapshot(self) -> dict[str, Any]:
        """Let the main thread write a snapshot, with the holders. Return why not."""
        error = ""
        if self.can_dump:
            self.asked = True
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            error = "the program handles SIGUSR1 itself, or recording began with on_signal=False"
        return {"error": error}

    def wrote(self, path: str) -> None:
        """Note a file that was written."""
        self.last, self.last_us = whole(path), time.time_ns() // 1000

    def held(self, holders: dict[str, Any]) -> None:
        """Note the holders in a snapshot."""
        if holders:
            self.holders = holders.get("groups", [])[:HELD]

    def state(self) -> dict[str, Any]:
        """Return what `watch --live` shows of this recording."""
        session = self.session
        ranks = session.ranks()
        with alone(), captures_allowed(session.samples.exchange):
            devices = [self.device(one) for one in session.samples.used()]
        return {
            "pid": os.getpid(),
            "name": name_of_program(),
            "rank": None if ranks is None else ranks[0],
            "step_count": session.noting.steps.count,
            "file": whole(session.wanted),
            "start_us": self.began_us,
            "is_dryrun": "MEMREPLAY_DRYRUN_CARD" in os.environ,
            "is_continuous": session.rotation is not None,
            "can_dump": self.can_dump,
            "is_dumping": self.asked or session.dumping,
            "last_file": self.last,
            "last_us": self.last_us,
            "holders": self.holders,
            "devices": devices,
        }

    def device(self, device: int) -> dict[str, Any]:
        session = self.session
        devices, samples = session.devices, session.samples
        for _ in range(TRIES):  # until all numbers are of the same moment
            reserved = devices.memory_reserved(device)
            free, total = devices.mem_get_info(device)
            processes = samples.listed(device)
            if reserved == devices.memory_reserved(device):
                break
        properties = devices.get_device_properties(device)
        return {
            "device": device,
            "name": str(properties.name)[:LONGEST],
            "uuid": str(getattr(properties, "uuid", "")),
            "total_bytes": total,
            "free_bytes": free,
            "allocated_bytes": devices.memory_allocated(device),
            "allocated_peak_bytes": devices.max_memory_allocated(device),
            "reserved_bytes": reserved,
            "reserved_peak_bytes": devices.max_memory_reserved(device),
            "processes": [one._asdict() for one in processes],
            "processes_missing": samples.why_not.get(device, ""),
        }


def whole(path: str) -> str:
    """Return a path that other processes can use, too."""
    return path if is_url(path) else os.path.abspath(path)


def is_allowed(connection: socket.socket) -> bool:
    """Return whether this user's process, or root's, is at the other end."""
    return owner(connection)[1] in (os.getuid(), 0)


def owner(connection: socket.socket) -> tuple[int, int]:
    """Return the process at the other end and its user, as the kernel knows them."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, user, _ = CREDENTIALS.unpack(told)
    return pid, user


def name_of_program() -> str:
    """Return the program's name: its script or module."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    name = getattr(spec, "name", "") or os.path.basename(sys.argv[0] if sys.argv else "")
    return str(name.removesuffix(".__main__"))[:LONGEST] or "python"
