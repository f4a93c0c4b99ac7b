"""Prepare a program's environment and handle signals while it runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INSIDE = Path(__file__).parent / "inside"
"""The folder put first in PYTHONPATH: its sitecustomize waits for torch in each process."""


@contextmanager
def handled(by: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Install these signal handlers, except for signals that are ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # the terminal's other processes receive these signals, too
        return
    # One of the command line's threads ends the process immediately.
    watched = signal.set_wakeup_fd(-1)
    before = {number: signal.getsignal(number) for number in by}
    before = {number: one for number, one in before.items() if one not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, by[number])
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(watched, warn_on_full_buffer=False)
