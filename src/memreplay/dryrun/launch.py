"""Runs a command with a card that is not there, and collects what its processes recorded."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from memreplay.dryrun.cards import Card, environment
from memreplay.dryrun.python import Torch, interpreter, torch_of
from memreplay.dryrun.runtime import NoCudaError, Runtime, built, lay_out
from memreplay.errors import UsageError
from memreplay.programs.starting import INSIDE, handled

# What a process gets to write its snapshot, after it was told to end.
_LAST_SECONDS = 30.0
_TIME_TO_BEGIN, _TIME_FOR_TORCH = 3.0, 15.0  # what a process takes to load PyTorch, and to use it
_PAUSE = 0.2  # between two looks at what still runs, in seconds
# Of gpu/calls.c: the last call's name, how many there were, how many asked for memory, for how many
# cards, and how many asked for memory before the process became another program.
_CALLS = struct.Struct("=64sQQQQ")
# The least compute capability for which a CUDA compiles (its release notes).
_FIRST_CAPABILITY = {13: (7, 5), 12: (5, 0), 11: (3, 5)}
# What would reach into the run from outside: other cards than those asked for.
_NOT_PASSED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


class Setup(NamedTuple):
    """The machine to pretend, and how to record on it."""

    card: Card
    total_bytes: int
    cards: int = 1
    settings: str | None = None
    """As PYTORCH_ALLOC_CONF; None for what the environment says."""
    stacks: str = "auto"
    max_entries: int | None = None
    source: bool = False
    """Whether the snapshots get lines of the program's source code."""
    timeout: float | None = None
    stdout: int | None = None
    """The file descriptor that is the command's stdout; None for ours."""
    stderr: int | None = None
    """The same of its stderr."""


class Process(NamedTuple):
    """What one process left."""

    pid: int
    pickle: Path | None
    """Its snapshot; None where it ended without: it crashed, or was killed."""
    facts: Mapping[str, Any]
    """As inside/memreplay_recording.py writes them; empty without a snapshot."""
    last_call: str
    """The last function of the CUDA runtime that it called."""
    replaced: bool = False
    """Whether it had used the card before it became another program (exec), of which nobody knows
    what it took."""
    writing: bool = False
    """Whether the program had ended in it, and it was ended while it wrote the snapshot."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    """Its exit status; the negative number of the signal that ended it."""
    timed_out: bool
    interrupted: bool
    seconds: float
    torch: Torch
    cuda: int
    """The CUDA that its torch was built with: 11, 12 or 13."""
    unanswered: tuple[str, ...]
    """The functions that do nothing, by the numbers that `facts["unanswered"]` has."""
    processes: tuple[Process, ...]
    """Those that used the card, by their ranks."""
    cards: int = 0
    """How many cards it would take to have those that were asked for by number."""
    stopped_by: int = 0
    """The signal that we were sent, and passed on; 0 for none. See `end_by_signal`."""


def end_by_signal(number: int) -> None:
    """End this process by the signal that it was sent while the command ran, if there was one."""
    if number:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def run(command: Sequence[str], setup: Setup, folder: Path) -> Ended:
    """Run a command to its end; snapshots are written to `folder`, which is there and empty.

    Raises UsageError for what cannot be run, NoCudaError for a torch that cannot run dry.
    """
    built("_gpu")  # before anything that Linux alone has
    torch = torch_of(interpreter(command))
    with tempfile.TemporaryDirectory(prefix="memreplay-", dir=_parent()) as libraries:
        runtime = lay_out(torch.package, Path(libraries))
        _check_card(setup.card, runtime.cuda)
        variables = _environment(torch, runtime, setup, folder)
        variables["MEMREPLAY_GPU_MESSAGES"] = libraries
        began = time.monotonic()
        try:
            child = subprocess.Popen(
                command, env=variables, stdout=setup.stdout, stderr=setup.stderr
            )
        except OSError as error:
            raise UsageError(f"{command[0]} does not run: {error.strerror or error}") from None
        waited = _wait(child, setup.timeout, folder)
        seconds = time.monotonic() - began
    processes = sorted(_processes(folder), key=_rank)
    calls = [_calls(path) for path in folder.glob("*.calls")]
    return Ended(
        waited.status,
        waited.timed_out,
        waited.interrupted,
        # To write what was recorded takes a while longer.
        min(seconds, setup.timeout) if waited.timed_out and setup.timeout else seconds,
        torch,
        runtime.cuda,
        runtime.unanswered,
        tuple(processes),
        max((one.cards for one in calls), default=0),
        waited.stopped_by,
    )


def _parent() -> str | None:
    """Where temporary files go: LD_PRELOAD has no way to name a path with a space or a colon, the
    loader reads `$` as a name of its own, and takes no library from where nothing may run."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        try:
            allowed = not os.statvfs(folder).f_flag & os.ST_NOEXEC
        except OSError:
            continue
        if allowed and not set(" :$") & set(folder) and os.access(folder, os.W_OK):
            return folder
    return None


def _check_card(card: Card, cuda: int) -> None:
    """Raises NoCudaError for a card that this CUDA has no kernels for."""
    capability = f"{card.major}.{card.minor}"
    least = _FIRST_CAPABILITY.get(cuda, (0, 0))
    if (card.major, card.minor) < least:
        raise NoCudaError(
            f"{card.key} has compute capability {capability}, and this torch is for CUDA {cuda},"
            f" which begins at {least[0]}.{least[1]}: take a torch for CUDA 12"
        )
    if cuda < 12 and card.major > 9:
        raise NoCudaError(
            f"{card.key} has compute capability {capability}, and this torch is for CUDA {cuda},"
            " which ends at 9.0: take a later torch"
        )


def _environment(torch: Torch, runtime: Runtime, setup: Setup, folder: Path) -> dict[str, str]:
    found = {name: text for name, text in os.environ.items() if name not in _NOT_PASSED}

    def first(name: str, paths: Sequence[Path], separator: str) -> str:
        before = [os.environ[name]] if os.environ.get(name) else []
        return separator.join([*map(str, paths), *before])

    found |= environment(setup.card, cuda=runtime.cuda, count=setup.cards, bytes=setup.total_bytes)
    found |= {
        "LD_PRELOAD": first("LD_PRELOAD", runtime.preload, ":"),
        "PYTHONPATH": first("PYTHONPATH", [INSIDE], os.pathsep),
        "MEMREPLAY_DRYRUN": str(folder),
        "MEMREPLAY_DRYRUN_INSIDE": str(INSIDE),
        "MEMREPLAY_DRYRUN_CARD": str(built("_gpu")),
        "MEMREPLAY_DRYRUN_MORE": str(runtime.more),
        "MEMREPLAY_DRYRUN_STACKS": setup.stacks,
        "MEMREPLAY_GPU_CALLS": str(folder),
        # Triton does not look among what is preloaded for the driver that it links to.
        "TRITON_LIBCUDA_PATH": str(runtime.more.parent),
        **_caches(),
    }
    if setup.max_entries is not None:
        found["MEMREPLAY_DRYRUN_ENTRIES"] = str(setup.max_entries)
    if setup.source:
        found["MEMREPLAY_DRYRUN_SOURCE"] = "1"
    if torch.cudnn is not None:
        found["MEMREPLAY_CUDNN"] = str(torch.cudnn)
    if setup.settings is not None:
        # It had another name before PyTorch 2.9; where both are known, the later one counts.
        found["PYTORCH_ALLOC_CONF"] = found["PYTORCH_CUDA_ALLOC_CONF"] = setup.settings
    return found


def _caches() -> dict[str, str]:
    """Where compilers keep what they made: apart from what runs on real cards read, since a dry run
    measures no times to choose by, and NVRTC makes nothing."""
    inductor = f"memreplay_torchinductor_{os.getuid()}"
    return {
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(tempfile.gettempdir(), inductor),
        "USE_PYTORCH_KERNEL_CACHE": "0",
    }


class _Waited(NamedTuple):
    status: int
    timed_out: bool
    interrupted: bool
    stopped_by: int
    """The signal that is to end us, too; 0 for none."""


def _wait(child: subprocess.Popen[bytes], timeout: float | None, folder: Path) -> _Waited:
    """For its end. Ctrl-C it gets as well, and ends by itself; a signal to us ends it first, within
    `_LAST_SECONDS`, and a second one at once."""
    pressed = stopped_by = 0
    last = math.inf  # when it has had its time to write what it has
    until = None if timeout is None else time.monotonic() + timeout

    def press(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 2:  # it does not end, and somebody has no more patience
            _tell(folder, child.pid, signal.SIGKILL)

    def stop(number: int, _: object) -> None:
        nonlocal stopped_by, last
        _tell(folder, child.pid, signal.SIGKILL if pressed or stopped_by else signal.SIGTERM)
        stopped_by = number
        last = time.monotonic() + _LAST_SECONDS

    def ended() -> int:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return child.wait(_PAUSE)
            now = time.monotonic()
            if until is not None and now > until and not stopped_by:
                raise subprocess.TimeoutExpired(child.args, timeout or 0)
            if now > last:
                _tell(folder, child.pid, signal.SIGKILL)

    with handled({signal.SIGINT: press, signal.SIGTERM: stop, signal.SIGHUP: stop}):
        timed_out = False
        try:
            status = ended()
            if not _wait_for_users(folder, until, lambda: bool(pressed or stopped_by)):
                timed_out = not (pressed or stopped_by)
                _tell(folder, 0, signal.SIGTERM)
        except subprocess.TimeoutExpired:
            timed_out = True
            _tell(folder, child.pid, signal.SIGTERM)
            try:
                status = child.wait(_LAST_SECONDS)
            except subprocess.TimeoutExpired:
                _tell(folder, child.pid, signal.SIGKILL)
                status = child.wait()
        if timed_out or pressed or stopped_by:
            _wait_for_others(folder)
    return _Waited(status, timed_out, pressed > 0 or stopped_by > 0, stopped_by)


def _wait_for_users(folder: Path, until: float | None, stopped: Callable[[], bool]) -> bool:
    """For the processes that use a card and outlive the command that started them; whether they
    have ended by themselves."""
    told, began = False, time.monotonic()
    while True:
        waited = time.monotonic() - began
        them = list(_marked(folder))
        users = [pid for pid in them if _calls(folder / f"{pid}.calls").asked]
        if not users and not any(_may_use(pid, waited) for pid in them):
            return True
        if stopped() or (until is not None and time.monotonic() > until):
            return False
        if users and not told:
            words = ", ".join(map(str, users))
            sys.stderr.write(f"memreplay: waiting for what still uses the GPU: process {words}\n")
            told = True
        time.sleep(_PAUSE)


def _may_use(pid: int, waited: float) -> bool:
    """Whether a process may come to use a card: a Python that has just begun, or has PyTorch. One
    that does not for long will not."""
    if waited > _TIME_FOR_TORCH:
        return False
    with suppress(OSError):
        if b"libtorch_cuda" in Path("/proc", str(pid), "maps").read_bytes():
            return True
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        return waited < _TIME_TO_BEGIN and program.startswith("python")
    return False


def _wait_for_others(folder: Path) -> None:
    """For the processes that a command had started and that got the same signal: to write what they
    have takes a while."""
    until = time.monotonic() + _LAST_SECONDS
    while _tell(folder, 0, 0):
        if time.monotonic() > until:
            _tell(folder, 0, signal.SIGKILL)
            return
        time.sleep(_PAUSE)


def _tell(folder: Path, leader: int, number: int) -> bool:
    """A signal to the command and to all processes that it started, in whatever group these are;
    whether there are any."""
    there = False
    for pid in {leader, *_marked(folder)} - {0}:
        with suppress(OSError):  # it has ended
            os.kill(pid, number)
            there = True
    return there


def _marked(folder: Path) -> Iterator[int]:
    """The processes that the command started, by their environment."""
    mark = f"MEMREPLAY_DRYRUN={folder}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark in Path("/proc", entry.name, "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _processes(folder: Path) -> Iterator[Process]:
    pids = {int(path.stem) for path in folder.iterdir() if path.stem.isdecimal()}
    for pid in pids:
        base = folder / str(pid)
        facts: dict[str, Any] = {}
        beside = base.with_suffix(".json")
        if beside.exists():
            facts = json.loads(beside.read_text(encoding="utf-8"))
        calls = _calls(base.with_suffix(".calls"))
        # A process that only asked how many cards there are used none.
        if facts or calls.asked:
            pickle = base.with_suffix(".pickle")
            whole = bool(facts) and not facts.get("not_written")
            writing = not facts and base.with_suffix(".writing").exists()
            yield Process(
                pid, pickle if whole else None, facts, calls.last, calls.before > 0, writing
            )


class _Calls(NamedTuple):
    last: str = ""
    calls: int = 0
    asked: int = 0
    cards: int = 0
    before: int = 0


def _calls(path: Path) -> _Calls:
    try:
        name, *counts = _CALLS.unpack_from(path.read_bytes())
    except (OSError, struct.error):
        return _Calls()
    return _Calls(name.partition(b"\0")[0].decode("ascii", "replace"), *counts)


def _rank(process: Process) -> tuple[int, int]:
    rank = process.facts.get("rank")
    return (rank if isinstance(rank, int) else 1 << 30, process.pid)
