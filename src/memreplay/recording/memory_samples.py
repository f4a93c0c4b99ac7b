"""Sample the memory of each card and of this process while recording.

PyTorch's allocator only knows its own memory. The driver knows how much of a card is free, so the
rest belongs to this process's libraries and to other processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from memreplay.recording.guarding import Guard, described, from_a_signal
from memreplay.recording.host_memory import (
    HostMemory,
    Row,
    columns_of,
    described_host,
    host_memory,
    row_of,
    time_us,
)
from memreplay.recording.processes import CannotListError, Lister, Process, is_rocm, lister

SECONDS = 1.0  # time between two samples
LOOK = 0.1  # time between two looks whether PyTorch got memory from the driver or returned it
SHARE = 50  # a sample may take a 50th of this time; slow ones are taken less often
MOST = 2048  # maximum number of samples of all cards together, and of this process
FEWEST = 32  # minimum number of samples per card before they are thinned
TRIES = 5  # how often to sample again because the program allocated in between
EXCHANGE, RELAXED = "ThreadExchangeStreamCaptureMode", 2  # cudaStreamCaptureModeRelaxed

# Held while a sample is taken, so that a program doesn't fork in the middle of one. A driver that
# hangs mustn't stop the program, so nothing waits for long.
_lock = threading.RLock()


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Hold the lock. Yields whether that succeeded."""
    held = _lock.acquire(timeout=SECONDS)
    try:
        yield held
    finally:
        if held:
            _lock.release()


def begin_fork() -> None:
    """Wait for a sample to end."""
    _forking.append(alone())
    _forking[-1].__enter__()


def end_fork() -> None:
    if _forking:
        _forking.pop().__exit__(None, None, None)


_forking: list[contextlib.AbstractContextManager[bool]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=begin_fork, after_in_parent=end_fork, after_in_child=end_fork)


class Thinned:
    """Rows over time. If there are too many, one of each two neighbours is kept: the lower one, by
    `key`.
    """

    def __init__(self, most: int, key: Any) -> None:
        self.most, self.key = most, key
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        rows = self.rows
        if len(rows) >= self.most:
            pairs = zip(rows[::2], rows[1::2], strict=False)
            rows[: len(rows) // 2 * 2] = [min(pair, key=self.key) for pair in pairs]
        rows.append(row)

    def columns(self, names: tuple[str, ...]) -> dict[str, list[int | None]]:
        return columns_of(tuple(self.rows), names)


class Samples:
    """The samples of one recording. `start` takes one each second, and soon after PyTorch got
    memory from the driver or returned it, in a thread, until `stop`.
    """

    def __init__(self, torch: Any, kind: str, guard: Guard) -> None:
        self.torch, self.kind, self.guard = torch, kind, guard
        self.devices = getattr(torch, kind)
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None
        self.cards: dict[int, Thinned] = {}
        self.totals: dict[int, int] = {}
        self.processes: dict[int, list[Process]] = {}
        self.host = Thinned(MOST // 4, lambda row: -(row[1] or 0))
        self.peaks = HostMemory()
        self.exchange = exchange_of(torch, kind)
        self.lister: Lister | None = None
        self.no_lister = ""
        """Why no processes can be listed on this machine; empty if they can."""
        self.why_not: dict[int, str] = {}
        """Why the last attempt to list a card's processes failed."""

    def start(self) -> None:
        """Take the first sample, and begin to take more."""
        self.take()
        self.thread = threading.Thread(target=self.run, name="memreplay", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.ended.set()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(SECONDS)
        self.thread = None

    def run(self) -> None:
        taken, before = 0.0, time.monotonic()
        while not self.ended.wait(LOOK):
            since, least = time.monotonic() - before, taken * SHARE
            if since >= max(SECONDS, least) or (since >= least and self.changed()):
                begun = time.monotonic()
                self.take()
                before = time.monotonic()
                taken = before - begun

    def changed(self) -> bool:
        """Return whether PyTorch has more or less memory from the driver than at the last sample.
        This asks only PyTorch, and takes little time.
        """
        with alone() as held:
            found = held and self.guard.run("looking at reserved memory", self.differs)
        return bool(found)

    def differs(self) -> bool:
        return any(
            device not in self.cards or self.reserved(device) != self.cards[device].rows[-1][2]
            for device in self.used()
        )

    def reserved(self, device: int) -> int:
        """Return the bytes that PyTorch's allocator has from the driver."""
        return int(self.devices.memory_reserved(device))

    def take(self) -> None:
        """Take a sample now."""
        with alone() as held:
            if held:
                self.guard.run("sampling memory", self.sample)

    def sample(self) -> None:
        with captures_allowed(self.exchange):
            for device in self.used():
                self.guard.run("sampling a card's memory", self.sample_card, device)
        now = host_memory(self.devices)
        self.peaks = now
        self.host.add(row_of(now))

    def used(self) -> Iterator[int]:
        """Yield the devices that this process uses. To ask about another one would create a context
        there.
        """
        devices = self.devices
        if not hasattr(devices, "mem_get_info") or not devices.is_initialized():
            return
        has_context = getattr(self.torch._C, f"_{self.kind}_hasPrimaryContext", None)
        for device in range(devices.device_count()):
            if has_context(device) if has_context else devices.memory_reserved(device):
                yield device

    def sample_card(self, device: int) -> None:
        devices = self.devices
        reserved = self.reserved(device)
        for _ in range(TRIES):
            free, total = devices.mem_get_info(device)
            before, reserved = reserved, self.reserved(device)
            if before == reserved:
                break
        if device not in self.cards:
            most = max(FEWEST, MOST // max(8, devices.device_count()))
            self.cards[device] = Thinned(most, itemgetter(1))
        self.totals[device] = total
        self.cards[device].add((time_us(), free, reserved, self.others(device)))

    def others(self, device: int) -> int | None:
        """Return the bytes of other processes on a device; None if they aren't known."""
        found = self.processes[device] = self.listed(device)
        own = os.getpid()
        # If this process isn't listed, it has another pid there: it runs in a container.
        if not any(one.pid == own for one in found) or any(one.bytes is None for one in found):
            return None
        return sum(one.bytes or 0 for one in found if one.pid != own)

    def listed(self, device: int) -> list[Process]:
        """Return the processes on a device; an empty list, and the reason in `why_not`, if that's
        not possible.
        """
        self.why_not[device] = ""
        try:
            if self.lister is None and not self.no_lister:
                self.lister = lister(self.torch, self.kind)
            if self.lister is not None:
                return self.lister.processes(device)
        except CannotListError as error:
            self.why_not[device] = str(error)
        except Exception as error:  # whatever another package's version may raise
            if from_a_signal(error):
                raise
            self.why_not[device] = described(error)
        if self.lister is None:  # don't try again
            self.no_lister = self.no_lister or self.why_not[device]
            self.why_not[device] = self.no_lister
        return []

    def notes(self, pinned_events: int | None = None) -> dict[str, Any]:
        """Return what goes under memreplay's key (docs/format.md).

        `pinned_events`: how many events of pinned memory were recorded, if any.
        """
        cards = [self.card_notes(device) for device in sorted(self.cards)]
        host = described_host(self.host.rows, self.peaks, pinned_events)
        return {
            **({"card_memory": cards} if cards else {}),
            **({"host_memory": host} if self.host.rows else {}),
        }

    def own_outside(self, device: int) -> int | None:
        """Return the most memory that this process had on a card outside PyTorch's allocator; None
        if other processes aren't known.
        """
        total = self.totals.get(device, 0)
        rows = self.cards[device].rows if device in self.cards else []
        found = [
            total - (free or 0) - (reserved or 0) - other
            for _, free, reserved, other in rows
            if other is not None
        ]
        return max(0, *found) if found else None

    def card_notes(self, device: int) -> dict[str, Any]:
        columns = ("times_us", "free_bytes", "reserved_bytes", "other_bytes")
        own = os.getpid()
        return {
            "device": device,
            "total_bytes": self.totals[device],
            "is_part": self.lister is not None and self.lister.is_mig(device),
            **self.cards[device].columns(columns),
            "processes": [
                {**one._asdict(), "is_recorded": one.pid == own}
                for one in self.processes.get(device, ())
            ],
            "processes_missing": self.why_not.get(device, ""),
        }


def exchange_of(torch: Any, kind: str) -> Any:
    """Return the runtime's function that sets a thread's capture mode; None without it."""
    if kind != "cuda":
        return None
    runtime = "hip" if is_rocm(torch) else "cuda"
    try:
        # The function is in a library that PyTorch's own library needs.
        return getattr(ctypes.CDLL(torch._C.__file__), f"{runtime}{EXCHANGE}")
    except (AttributeError, OSError):
        return None


@contextlib.contextmanager
def captures_allowed(exchange: Any) -> Iterator[None]:
    """Let this thread ask the driver while a CUDA graph is being captured, by any thread.

    In the default mode, some calls make the capture fail.
    """
    mode = ctypes.c_int(RELAXED)
    if exchange is not None:
        exchange(ctypes.byref(mode))  # `mode` is now the thread's previous one
    try:
        yield
    finally:
        if exchange is not None:
            exchange(ctypes.byref(mode))
