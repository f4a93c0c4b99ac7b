"""Record a program from outside, from its first use of a device to its end.

`memreplay record` loads this file by path in each Python process that the command starts. It
imports memreplay's recorder only when there is something to record.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Outside:
    """The recording of one process."""

    def __init__(self, torch: Any, told: str) -> None:
        self.torch = torch
        options: dict[str, Any] = json.loads(told)
        self.folder: str = options.pop("folder")
        self.options = options
        self.of = 0  # the process id when the recording started
        self.tried = 0  # process id
        self.recorder: Any = None

    def begin(self) -> None:
        """Start recording if memreplay can be imported. The program runs either way."""
        if self.tried == os.getpid():
            return
        self.tried = os.getpid()
        sys.path.append(PACKAGE)
        try:
            from memreplay.errors import MemreplayError
            from memreplay.recording.ending import at_the_end
            from memreplay.recording.logs import tell
            from memreplay.recording.session import Session, Wanted
        except ImportError as error:
            version = ".".join(map(str, sys.version_info[:2]))
            say(f"this Python {version} can't import memreplay; install it there ({error})")
            return
        finally:
            sys.path.remove(PACKAGE)
        try:
            self.recorder = session = Session(Wanted(**self.options, shared=True), tell)
            session.__enter__()
        except MemreplayError as error:
            say(str(error))
            return
        self.of = os.getpid()
        at_the_end(self.end)

    def end(self) -> None:
        """Write the snapshot, and a note that tells the parent process about it."""
        if self.of != os.getpid():
            return  # already done, or this is a forked child
        self.of = 0
        self.recorder.finish_unstopped()
        with open(os.path.join(self.folder, str(os.getpid())), "w", encoding="utf-8") as file:
            file.write(self.recorder.path)


def say(words: str) -> None:
    sys.stderr.write(f"memreplay: nothing is recorded: {words}\n")


prepared: list[Outside] = []
"""Recordings that wait for the first use of a device, or until the program starts one itself."""


def prepare(torch: Any, told: str) -> None:
    """Start recording when torch initializes a device."""
    outside = Outside(torch, told)
    prepared.append(outside)
    for kind in ("cuda", "xpu"):
        devices = getattr(torch, kind, None)
        queue = getattr(devices, "_queued_calls", None)
        if devices is None or queue is None:
            continue
        if devices.is_initialized():
            outside.begin()
        else:
            queue.append((outside.begin, []))
