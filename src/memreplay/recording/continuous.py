"""Record for days: write a file now and then and at each new peak, and delete the oldest."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from memreplay.errors import UsageError
from memreplay.recording.guarding import Guard
from memreplay.recording.ring import Counts, Ring
from memreplay.recording.writing import PACKED, beside

INTERVAL = 0.1  # seconds between two looks at PyTorch's counters
PEAK_GAP = 10.0  # least number of seconds between two peaks' files
PEAK_SHARE = 50  # writing peaks' files takes at most 1/50 of the time
STEPLESS = 5.0  # seconds without a step after which files don't wait for the end of one
BYTES_PER_EVENT = 200  # of a file, until the first one is written


class Continuous(NamedTuple):
    """When to write files, and how many to keep."""

    seconds: float = 600.0
    """Seconds from one file to the next."""
    size: int | None = None
    """Also write a file once its events would take about this number of bytes."""
    keep: int = 10
    """Number of files to keep."""
    keep_size: int | None = None
    """Bytes of files to keep."""
    peak_percent: float | None = 2.0
    """Also write a file if memory exceeds its maximum so far by this percentage; None: don't."""

    @staticmethod
    def asked(given: bool | Mapping[str, Any]) -> Continuous | None:
        """Return what a program asks for; None for False. Raises UsageError."""
        if given is False or given is None:
            return None
        fields = {} if given is True else dict(given)
        unknown = [name for name in fields if name not in Continuous._fields]
        if unknown:
            raise UsageError(
                f"continuous: unknown {', '.join(map(str, unknown))}; known:"
                f" {', '.join(Continuous._fields)}"
            )
        found = Continuous(**fields)
        for name, number in found._asdict().items():
            whole = name in ("size", "keep", "keep_size")
            if number is None and Continuous._field_defaults[name] is not None:
                usable = name == "peak_percent"
            else:
                usable = number is None or (
                    isinstance(number, int if whole else (int, float))
                    and type(number) is not bool
                    and number > 0
                )
            if not usable:
                kind = "a whole number" if whole else "a number"
                raise UsageError(f"continuous: {name} must be {kind} above 0")
        return found


class Files:
    """The files of a continuous recording: snap.window-000001.pickle, and so on.

    The numbers go on from an earlier run's files, which count as this run's own: a job that is
    restarted again and again doesn't fill the disk.
    """

    def __init__(self, wanted: Callable[[], str], keep: int, keep_size: int | None) -> None:
        # The name changes once the rank is known.
        self.wanted, self.keep, self.keep_size = wanted, keep, keep_size

    def next(self, why: str = "") -> str:
        """Return the next file's path. `why`: "" or "peak" or "oom"."""
        number = max((number for number, _, _ in self.there()), default=0) + 1
        return beside(self.wanted(), f".window-{number:06}{f'-{why}' if why else ''}")

    def there(self) -> list[tuple[int, str, str]]:
        """Return the number, path and `why` of each file, oldest first."""
        folder, name = os.path.split(beside(self.wanted(), ".window-\n"))
        before, after = map(re.escape, name.split("\n", 1))
        pattern = re.compile(
            rf"{before}([0-9]{{6,}})(?:-(peak|oom))?{after}(?:{re.escape(PACKED)})?"
        )
        found = []
        with contextlib.suppress(OSError):
            for file in os.listdir(folder or "."):
                match = pattern.fullmatch(file)
                if match is not None:
                    found.append((int(match[1]), os.path.join(folder, file), match[2] or ""))
        return sorted(found)

    def prune(self) -> None:
        """Delete the oldest files beyond the limits, but never the newest, nor the last peak's, nor
        the last ones of moments when memory ran out.
        """
        there = self.there()
        stay = {path for _, path, _ in there[-1:]}
        for kind, most in (("peak", 1), ("oom", self.keep)):
            stay.update([path for _, path, why in there if why == kind][-most:])
        sizes = {}
        for _, path, _ in there:
            with contextlib.suppress(OSError):
                sizes[path] = os.path.getsize(path)
        for path in list(sizes):
            many = len(sizes) > self.keep
            large = self.keep_size is not None and sum(sizes.values()) > self.keep_size
            if not (many or large):
                break
            if path in stay:
                continue
            with contextlib.suppress(OSError):
                os.unlink(path)
            del sizes[path]


class Rotation:
    """Decide when to write a file.

    Files are written at the ends of steps, so that they are comparable. A thread looks after the
    ring, and writes the files of programs without steps.

    Parameters
    ----------
    ring : Ring
        The edges of the recording.
    files : Files
        Where to write.
    wanted : Continuous
        When to write.
    write : callable
        Writes a snapshot to a path, and returns the file's name; None on failure.
    """

    def __init__(
        self, ring: Ring, files: Files, wanted: Continuous, write: Callable[[str], str | None]
    ) -> None:
        self.ring, self.files, self.wanted, self.write = ring, files, wanted, write
        # A signal's handler may interrupt a thread that already has the lock.
        self.lock = threading.RLock()
        self.clock: Callable[[], float] = time.monotonic
        self.next_look = self.next_end = 0.0
        now = self.clock()
        self.window = self.window_now()
        self.path = ""  # the last window's file
        self.since = 1  # number of the edge at which the current window begins
        self.began = sum(ring.counts.events)  # events before the current window
        self.per_event = float(BYTES_PER_EVENT)
        self.stepped_at, self.step_seconds = now, 0.0
        self.highest = self.written_peaks = [0] * len(ring.counts.peaks)
        self.rose = 0  # events before the last new maximum
        self.peak_after = now  # no peak's file before
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    # --- time -------------------------------------------------------------------------------------

    def start(self, guard: Guard) -> None:
        """Start the thread."""

        def watch() -> None:
            while not self.ended.wait(INTERVAL):
                guard.run("looking at a continuous recording", self.watched)

        self.thread = threading.Thread(target=watch, name="memreplay", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self.ended.set()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join()

    def stepped(self) -> None:
        """Look, at the end of a step."""
        now = self.clock()
        self.step_seconds, self.stepped_at = now - self.stepped_at, now
        if now >= self.next_end:
            self.next_end = now + INTERVAL
            self.look(now, step_ended=True)

    def watched(self) -> None:
        """Look, in the middle of whatever the program does."""
        now = self.clock()
        # If another thread has the lock, it's looking itself. To wait for it would be a deadlock if
        # a signal interrupts it and ends the recording, which waits for this thread.
        if now >= self.next_look and self.lock.acquire(blocking=False):
            try:
                quiet = max(STEPLESS, 3 * self.step_seconds)
                self.look(now, step_ended=now - self.stepped_at > quiet)
            finally:
                self.lock.release()

    def look(self, now: float, *, step_ended: bool) -> None:
        """Take an edge if it's time, and write a file if it's time and a step has ended."""
        with self.lock:
            self.next_look = now + INTERVAL
            counts = self.ring.look()
            peak = self.is_peak(counts, now)
            # A peak whose events are about to be overwritten can't wait.
            if peak and (step_ended or sum(counts.events) - self.rose > self.ring.entries // 2):
                self.write_peak(now)
            elif step_ended and self.is_over(counts):
                self.rotate()

    def window_now(self) -> int:
        # By the wall clock, so that all ranks write at the same time.
        return int(time.time() // self.wanted.seconds)

    # --- files ------------------------------------------------------------------------------------

    def is_over(self, counts: Counts) -> bool:
        """Return whether the current window should end."""
        events = sum(counts.events) - self.began
        size = self.wanted.size
        return events > 0 and (
            self.window_now() != self.window
            or (size is not None and events * self.per_event >= size)
        )

    def rotate(self) -> str:
        """Write the current window's file, and begin the next window. Return the file's path, or
        that of the last window if this one couldn't be written.
        """
        with self.lock:
            self.ring.look()
            events = sum(self.ring.counts.events) - self.began
            if not events and self.path:
                return self.path
            path = self.files.next()
            with self.ring.since(self.since):
                written = self.write(path)
            if written is not None:
                self.path = written
                with contextlib.suppress(OSError):
                    self.per_event = os.path.getsize(written) / min(
                        max(events, 1), self.ring.entries
                    )
            self.since, self.began = self.ring.taken, sum(self.ring.counts.events)
            self.window = self.window_now()
            self.files.prune()
            return self.path or path

    def is_peak(self, counts: Counts, now: float) -> bool:
        """Return whether there is a new maximum that has stopped rising."""
        if self.wanted.peak_percent is None:
            return False
        if any(new > old for new, old in zip(counts.peaks, self.highest, strict=True)):
            self.highest, self.rose = counts.peaks, sum(counts.events)
            return False
        least = 1 + self.wanted.peak_percent / 100
        return (
            now >= self.peak_after
            and sum(counts.events) - self.rose < self.ring.entries
            and any(
                new >= old * least and new
                for new, old in zip(self.highest, self.written_peaks, strict=True)
            )
        )

    def write_peak(self, now: float) -> None:
        """Write the file of a new maximum."""
        self.write(self.files.next("peak"))
        self.written_peaks = self.highest
        took = self.clock() - now
        self.peak_after = now + max(PEAK_GAP, PEAK_SHARE * took)
        self.files.prune()
