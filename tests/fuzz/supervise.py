"""Run a check over inputs in worker processes, and catch crashes and hangs."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

Make = Callable[[int], tuple[str, bytes]]
Check = Callable[[bytes], str]

FORK = multiprocessing.get_context("fork")  # imported here so that forked workers have it
# Under sanitizers, running all commands on an input with 41 devices takes about 6 s.
CPU_SECONDS = 10.0
PAGE = os.sysconf("SC_PAGESIZE")
POLL = 0.05
NAMED = re.compile(r"SUMMARY: .*|.*runtime error: .*|Fatal Python error: .*")
ADDRESS = re.compile(r"0x[0-9a-f]+|\(BuildId.*?\)|\+\)|==\d+==|\d+")


@dataclass(frozen=True)
class Allowed:
    """Limits for one input. `killed_after` is in wall time; a worker that exceeds `resident` is
    killed.
    """

    cpu_seconds: float = CPU_SECONDS
    growth_base: int = 100 << 20
    growth_factor: int = 10
    killed_after: float = 30.0
    resident: int = 3 << 30


@dataclass(frozen=True)
class Finding:
    """An input that failed a check; findings with the same likely cause have the same
    `signature`.
    """

    number: int
    kind: str
    signature: str
    text: str
    data: bytes


@dataclass
class Tally:
    """A run's results: numbers of inputs by (kind, outcome), and findings, one per signature."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    repeats: int = 0
    seconds: float = 0.0

    @property
    def inputs(self) -> int:
        return sum(self.counts.values())


# ---- in the worker -------------------------------------------------------------------------------


class Meter:
    """Measure what one input costs the process: CPU time and peak resident memory."""

    def __init__(self) -> None:
        self._statm = os.open("/proc/self/statm", os.O_RDONLY) if sys.platform == "linux" else -1
        self._peak = self._peak_now()

    def __enter__(self) -> Meter:
        self._before = self._resident()
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began
        peak = self._peak_now()
        self.growth = 0
        if peak > self._peak:
            self.growth = peak - self._before
            self._peak = self._lowered(peak)

    def _resident(self) -> int:
        return resident(self._statm) if self._statm >= 0 else self._peak_now()

    @staticmethod
    def _peak_now() -> int:
        unit = 1 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def _lowered(self, peak: int) -> int:
        """Reset the process's peak memory if the system can, so that an earlier input's peak
        doesn't hide a later one's.
        """
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")
            return self._peak_now()
        return peak


def resident(statm: int) -> int:
    return int(os.pread(statm, 100, 0).split()[1]) * PAGE


def judged(check: Check, data: bytes, allowed: Allowed, meter: Meter) -> tuple[str, str, str]:
    """Return (outcome, signature, text) for an input; the signature is empty if all is well."""
    try:
        with meter:
            outcome = check(data)
    except Exception as error:
        return "found", signature_of(error), traceback.format_exc()
    if meter.seconds > allowed.cpu_seconds:
        return "found", "slow", f"it took {meter.seconds:.1f} s of processor time"
    if meter.growth > allowed.growth_base + allowed.growth_factor * len(data):
        return "found", "memory", f"{meter.growth >> 20} MiB for {len(data)} bytes of input"
    return outcome, "", ""


def signature_of(error: BaseException) -> str:
    """Return an exception's type and where it was raised. They're usually the same for the same
    cause.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.name}"
    what = ADDRESS.sub("N", str(error))[:60]
    return f"{type(error).__name__} in {where}: {what}"


@dataclass
class _Shared:
    # Shared with the parent, so that nothing is lost when a worker dies.
    number: Synchronized[int]
    untold: Synchronized[int]  # inputs whose outcome the parent has not received
    began: Synchronized[float]
    stop: Synchronized[int]


def _work(
    shared: _Shared,
    numbers: range,
    make: Make,
    check: Check,
    allowed: Allowed,
    out: Connection,
    errors: str,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.disable()  # sanitizers print their own, more detailed report
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    parent = os.getppid()
    meter = Meter()
    counts: Counter[tuple[str, str]] = Counter()
    told = time.monotonic()
    for number in numbers:
        if shared.stop.value:
            break
        shared.began.value = now = time.monotonic()
        shared.number.value = number
        if now - told > 1:
            if os.getppid() != parent:
                return  # the parent was killed
            out.send(counts)
            counts, told, shared.untold.value = Counter(), now, 0
        kind, data = make(number)
        outcome, signature, text = judged(check, data, allowed, meter)
        counts[kind, outcome] += 1
        shared.untold.value += 1
        if signature:
            out.send(Finding(number, kind, signature, text, data))
    shared.number.value = -1
    out.send(counts)


# ---- in the parent -------------------------------------------------------------------------------


class _Worker:
    def __init__(
        self, numbers: range, make: Make, check: Check, allowed: Allowed, stop: Synchronized[int]
    ) -> None:
        self.numbers = numbers
        self.errors = tempfile.NamedTemporaryFile("r", errors="replace", suffix=".log")  # noqa: SIM115
        self.shared = _Shared(
            FORK.Value("q", -1, lock=False),
            FORK.Value("q", 0, lock=False),
            FORK.Value("d", time.monotonic(), lock=False),
            stop,
        )
        self.pipe, out = FORK.Pipe(duplex=False)
        arguments = (self.shared, numbers, make, check, allowed, out, self.errors.name)
        self.process = FORK.Process(target=_work, args=arguments, daemon=True)
        with warnings.catch_warnings():
            # NumPy's threads are idle, and the worker doesn't need them, so forking is safe.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        out.close()

    def messages(self) -> Iterator[Any]:
        with contextlib.suppress(EOFError, OSError):
            while self.pipe.poll():
                yield self.pipe.recv()

    def resident(self) -> int:
        with contextlib.suppress(OSError):
            file = os.open(f"/proc/{self.process.pid}/statm", os.O_RDONLY)
            try:
                return resident(file)
            finally:
                os.close(file)
        return 0

    def overstayed(self, allowed: Allowed) -> str:
        """Return why this worker must be killed, or an empty string."""
        seconds = time.monotonic() - self.shared.began.value
        if seconds > allowed.killed_after:
            return "hang"
        return "memory without end" if self.resident() > allowed.resident else ""

    def report(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.errors.close()


def run(
    make: Make,
    check: Check,
    *,
    inputs: int,
    seconds: float = float("inf"),
    workers: int = 1,
    first: int = 0,
    allowed: Allowed | None = None,
    on_finding: Callable[[Finding], None] = lambda _: None,
    on_progress: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Check inputs `first` to `first + inputs - 1`, or as many as there is time for.

    The inputs don't depend on the number of workers. A worker that dies, hangs or uses too much
    memory is a finding; another worker continues after its last input.
    """
    allowed = allowed or Allowed()
    stop: Any = FORK.Value("b", 0, lock=False)
    tally = Tally()
    began = shown = time.monotonic()
    everything = range(first, first + inputs)

    def start(numbers: range) -> _Worker:
        return _Worker(numbers, make, check, allowed, stop)

    def note(finding: Finding) -> None:
        if finding.signature in tally.findings:
            tally.repeats += 1
            return
        tally.findings[finding.signature] = finding
        on_finding(finding)

    def collect(worker: _Worker) -> None:
        for message in worker.messages():
            if isinstance(message, Finding):
                note(message)
            else:
                tally.counts.update(message)

    running = [start(everything[w::workers]) for w in range(workers)]
    try:
        while running:
            wait([worker.process.sentinel for worker in running], POLL)
            now = time.monotonic()
            if now - began > seconds:
                stop.value = 1
            if now - shown > 10:
                shown, tally.seconds = now, now - began
                on_progress(tally)
            for worker in list(running):
                alive = worker.process.is_alive()
                collect(worker)
                why = worker.overstayed(allowed) if alive else ""
                if alive and not why:
                    continue
                running.remove(worker)
                at = worker.shared.number.value
                report = worker.report()
                code = worker.process.exitcode
                worker.close()
                if at < 0 and not why and code == 0:
                    continue
                kind, data = make(at) if at >= 0 else ("?", b"")
                tally.counts[kind, "found"] += 1
                if worker.shared.untold.value:
                    tally.counts["of any kind", "untold"] += worker.shared.untold.value
                note(Finding(at, kind, why or death(code, report), report or why, data))
                rest = worker.numbers[worker.numbers.index(at) + 1 :] if at >= 0 else range(0)
                if rest:
                    running.append(start(rest))
    except KeyboardInterrupt:
        pass  # findings so far are reported
    finally:
        for worker in running:
            worker.close()
        tally.seconds = time.monotonic() - began
    return tally


def death(code: int | None, report: str) -> str:
    """Describe how a process died: with its sanitizer's report if there is one, otherwise by signal
    or exit code.
    """
    found = NAMED.search(report)
    if found:
        return ADDRESS.sub("N", found[0]).strip()
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def verdict(data: bytes, check: Check, allowed: Allowed | None = None) -> Finding | None:
    """Check one input in a separate process."""
    tally = run(lambda _: ("one", data), check, inputs=1, allowed=allowed)
    return next(iter(tally.findings.values()), None)


def minimised(finding: Finding, check: Check, allowed: Allowed, seconds: float = 20.0) -> bytes:
    """Remove the parts of an input that its finding doesn't need, as far as time allows."""
    best = finding.data
    until = time.monotonic() + seconds
    size = len(best) // 2
    while size and time.monotonic() < until:
        at = 0
        while at < len(best) and time.monotonic() < until:
            shorter = best[:at] + best[at + size :]
            found = verdict(shorter, check, allowed)
            if found is not None and found.signature == finding.signature:
                best = shorter
            else:
                at += size
        size //= 2
    return best
