"""What a program starts with, and the signals that its parent handles meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INSIDE = Path(__file__).parent / "inside"
"""The folder that PYTHONPATH names first: its sitecustomize waits for torch in each process."""


@contextmanager
def handled(by: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Signals that are handled so, but for those that are ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield  # whoever is there has them
        return
    # The command line has a thread that ends the process at once.
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
