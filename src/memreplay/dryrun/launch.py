"""Run a command on the fake GPU, and collect its processes' recordings."""

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
from typing import Any, Literal, NamedTuple

from memreplay.dryrun.cards import Card, environment
from memreplay.dryrun.changes import Change, as_environment
from memreplay.dryrun.children import Children
from memreplay.dryrun.installing import Installer
from memreplay.dryrun.python import Torch, interpreter, torch_of
from memreplay.dryrun.ranks import Ranks
from memreplay.dryrun.runtime import CpuTorchError, NoCudaError, Runtime, built, lay_out
from memreplay.dryrun.workspaces import Measured
from memreplay.programs.starting import INSIDE, handled

# Seconds that a process gets to write its snapshot after being told to exit.
_LAST_SECONDS = 30.0
# Seconds that a process may take to load PyTorch, and then to start using the card.
_TIME_TO_BEGIN, _TIME_FOR_TORCH = 3.0, 15.0
_PAUSE = 0.2  # seconds between polls
# Must match gpu/calls.c: last call's name, number of calls, number of allocations, number of cards,
# and number of allocations before an exec.
_CALLS = struct.Struct("=64sQQQQ")
# The lowest compute capability that each CUDA version supports, according to the release notes.
_FIRST_CAPABILITY = {13: (7, 5), 12: (5, 0), 11: (3, 5)}
# Variables that would change the run, because they select cards other than the requested ones.
_NOT_PASSED = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


class Setup(NamedTuple):
    """The machine to simulate, and how to record."""

    card: Card
    total_bytes: int
    cards: int = 1
    settings: str | None = None
    """Settings as in PYTORCH_ALLOC_CONF; None uses the environment's."""
    stacks: str = "auto"
    max_entries: int | None = None
    source: bool = False
    """Whether snapshots include source lines."""
    holders: bool = False
    """Whether snapshots include who held memory."""
    workspaces: Measured | None = None
    """Measured workspaces; others are estimated."""
    routing: Literal["even", "same"] = "even"
    """What a program's choices by unknown values are, such as a router's experts."""
    changes: tuple[Change, ...] = ()
    """Changes to make to the program."""
    timeout: float | None = None
    ranks: Ranks | None = None
    """Which ranks run; None runs the command as it is."""
    stdout: int | None = None
    """File descriptor for the command's stdout; None inherits ours."""
    stderr: int | None = None
    """File descriptor for the command's stderr; None inherits ours."""


class Process(NamedTuple):
    """One process's results."""

    pid: int
    pickle: Path | None
    """The process's snapshot; None if the process crashed or was killed."""
    facts: Mapping[str, Any]
    """Facts that inside/memreplay_recording.py wrote; empty without a snapshot."""
    last_call: str
    """The last CUDA runtime function that the process called."""
    replaced: bool = False
    """Whether the process had used the card before an exec, so that its allocations are unknown."""
    writing: bool = False
    """Whether the process was killed while writing its snapshot."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    """Exit status, or the negative signal number."""
    timed_out: bool
    interrupted: bool
    seconds: float
    torch: Torch
    cuda: int
    """Its torch's CUDA version: 11, 12 or 13."""
    unanswered: tuple[str, ...]
    """Stub functions, indexed by the numbers in `facts["unanswered"]`."""
    processes: tuple[Process, ...]
    """Processes that used the card, by rank."""
    cards: int = 0
    """Number of cards needed for all device numbers used."""
    stopped_by: int = 0
    """The signal we received and forwarded; 0 for none. See `end_by_signal`."""
    missing: tuple[tuple[str, str], ...] = ()
    """Kind and name of what processes were missing when they failed, as in
    inside/memreplay_failing.py.
    """


def end_by_signal(number: int) -> None:
    """End this process by the signal it received while the command ran, if any."""
    if number:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def run(command: Sequence[str], setup: Setup, folder: Path) -> Ended:
    """Run a command until it ends.

    Snapshots go to `folder`, which must be empty. Raises UsageError if the command can't be run,
    NoCudaError if torch doesn't support dry runs.
    """
    built("_gpu")  # check this before using Linux-only features
    torch = torch_of(interpreter(command))
    with tempfile.TemporaryDirectory(prefix="memreplay-", dir=_parent()) as libraries:
        runtime = _lay_out(torch, Path(libraries))
        _check_card(setup.card, runtime.cuda, torch.installer)
        variables = _environment(torch, runtime, setup, folder)
        variables["MEMREPLAY_GPU_MESSAGES"] = libraries
        if setup.workspaces is not None:
            table = Path(libraries, "workspaces")
            table.write_text(setup.workspaces.table())
            variables["MEMREPLAY_GPU_WORKSPACES"] = str(table)
        began = time.monotonic()
        ranks = setup.ranks
        environments = (
            [variables]
            if ranks is None
            else [variables | ranks.environment(rank) for rank in ranks.ranks]
        )
        children = Children(command, environments, setup.stdout, setup.stderr)
        waited = _wait(children, setup.timeout, folder)
        seconds = time.monotonic() - began
    processes = sorted(_processes(folder), key=_rank)
    calls = [_calls(path) for path in folder.glob("*.calls")]
    return Ended(
        waited.status,
        waited.timed_out,
        waited.interrupted,
        # Allow some extra time for writing the recordings.
        min(seconds, setup.timeout) if waited.timed_out and setup.timeout else seconds,
        torch,
        runtime.cuda,
        runtime.unanswered,
        tuple(processes),
        max((one.cards for one in calls), default=0),
        waited.stopped_by,
        tuple(_missing(folder)),
    )


def _parent() -> str | None:
    """Return the folder for temporary files.

    LD_PRELOAD can't contain spaces or colons, expands `$`, and needs a file system without noexec.
    """
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        try:
            allowed = not os.statvfs(folder).f_flag & os.ST_NOEXEC
        except OSError:
            continue
        if allowed and not set(" :$") & set(folder) and os.access(folder, os.W_OK):
            return folder
    return None


def _lay_out(torch: Torch, folder: Path) -> Runtime:
    """Like lay_out(), but for a CPU build, say what to do."""
    try:
        return lay_out(torch.package, folder)
    except CpuTorchError:
        raise NoCudaError(
            f"this torch ({torch.version or 'of unknown version'}) was built without CUDA; replace"
            f" it with the CUDA build: `{torch.installer.replace(torch.version)}` (to run it"
            " outside dry runs too, leave out --no-deps: NVIDIA's libraries take some GB), or"
            " estimate a training step with this torch: memreplay.estimate in Python"
        ) from None


def _check_card(card: Card, cuda: int, installer: Installer) -> None:
    """Raise NoCudaError if CUDA has no kernels for the card."""
    capability = f"{card.major}.{card.minor}"
    least = _FIRST_CAPABILITY.get(cuda, (0, 0))
    if (card.major, card.minor) < least:
        raise NoCudaError(
            f"{card.key} has compute capability {capability}, but this torch is for CUDA {cuda},"
            f" which needs at least {least[0]}.{least[1]}; use a torch for CUDA 12:"
            f" `{installer.for_old_cards()}`"
        )
    if cuda < 12 and card.major > 9:
        raise NoCudaError(
            f"{card.key} has compute capability {capability}, but this torch is for CUDA {cuda},"
            " which supports up to 9.0; use a newer torch"
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
        "MEMREPLAY_DRYRUN_OPERATORS": str(built("_operators")),
        "MEMREPLAY_DRYRUN_STACKS": setup.stacks,
        "MEMREPLAY_DRYRUN_ROUTING": setup.routing,
        "MEMREPLAY_GPU_CALLS": str(folder),
        # Without this, Triton doesn't find a preloaded driver.
        "TRITON_LIBCUDA_PATH": str(runtime.more.parent),
        **_caches(),
    }
    if setup.max_entries is not None:
        found["MEMREPLAY_DRYRUN_ENTRIES"] = str(setup.max_entries)
    if setup.source:
        found["MEMREPLAY_DRYRUN_SOURCE"] = "1"
    if setup.changes:
        found["MEMREPLAY_DRYRUN_CHANGES"] = as_environment(setup.changes)
    if setup.holders:
        found["MEMREPLAY_DRYRUN_HOLDERS"] = "1"
    if torch.cudnn is not None:
        found["MEMREPLAY_CUDNN"] = str(torch.cudnn)
    if setup.settings is not None:
        # PyTorch 2.9 renamed the variable. Versions that know both use the new one.
        found["PYTORCH_ALLOC_CONF"] = found["PYTORCH_CUDA_ALLOC_CONF"] = setup.settings
    return found


def _caches() -> dict[str, str]:
    """Return variables that keep dry runs out of real runs' compiler caches.

    A dry run can't measure times, and its NVRTC compiles nothing, so its cached results must not be
    mixed with those of real runs.
    """
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
    """The signal that will also end this process; 0 for none."""


def _wait(children: Children, timeout: float | None, folder: Path) -> _Waited:
    """Wait for the command.

    The command also receives Ctrl-C, and ends by itself. If we get a signal, it has to end within
    `_LAST_SECONDS`; a second signal ends it immediately.
    """
    pressed = stopped_by = 0
    last = math.inf  # deadline for writing the results
    until = None if timeout is None else time.monotonic() + timeout

    def press(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 2:  # the command doesn't respond, and the user has lost patience
            _tell(folder, children.pids, signal.SIGKILL)

    def stop(number: int, _: object) -> None:
        nonlocal stopped_by, last
        _tell(folder, children.pids, signal.SIGKILL if pressed or stopped_by else signal.SIGTERM)
        stopped_by = number
        last = time.monotonic() + _LAST_SECONDS

    def ended() -> int:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return children.wait(_PAUSE)
            now = time.monotonic()
            if until is not None and now > until and not stopped_by:
                raise subprocess.TimeoutExpired("", timeout or 0)
            if now > last:
                _tell(folder, children.pids, signal.SIGKILL)

    with handled({signal.SIGINT: press, signal.SIGTERM: stop, signal.SIGHUP: stop}):
        timed_out = False
        try:
            status = ended()
            if not _wait_for_users(folder, until, lambda: bool(pressed or stopped_by)):
                timed_out = not (pressed or stopped_by)
                _tell(folder, (), signal.SIGTERM)
        except subprocess.TimeoutExpired:
            timed_out = True
            _tell(folder, children.pids, signal.SIGTERM)
            try:
                status = children.wait(_LAST_SECONDS)
            except subprocess.TimeoutExpired:
                _tell(folder, children.pids, signal.SIGKILL)
                status = children.wait()
        if timed_out or pressed or stopped_by:
            _wait_for_others(folder)
    return _Waited(status, timed_out, pressed > 0 or stopped_by > 0, stopped_by)


def _wait_for_users(folder: Path, until: float | None, stopped: Callable[[], bool]) -> bool:
    """Wait for processes that use a card and outlive the command.

    Return whether they ended by themselves.
    """
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
            sys.stderr.write(f"memreplay: waiting for processes that still use the GPU: {words}\n")
            told = True
        time.sleep(_PAUSE)


def _may_use(pid: int, waited: float) -> bool:
    """Return whether a process may still use a card, that is, whether it's a Python that has just
    started or has loaded PyTorch.
    """
    if waited > _TIME_FOR_TORCH:
        return False
    with suppress(OSError):
        if b"libtorch_cuda" in Path("/proc", str(pid), "maps").read_bytes():
            return True
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        return waited < _TIME_TO_BEGIN and program.startswith("python")
    return False


def _wait_for_others(folder: Path) -> None:
    """Wait for other processes that received the same signal to write their results."""
    until = time.monotonic() + _LAST_SECONDS
    while _tell(folder, (), 0):
        if time.monotonic() > until:
            _tell(folder, (), signal.SIGKILL)
            return
        time.sleep(_PAUSE)


def _tell(folder: Path, children: Sequence[int], number: int) -> bool:
    """Send a signal to the command and its descendants in any process group. Return whether there
    were any.
    """
    there = False
    for pid in {*children, *_marked(folder)}:
        with suppress(OSError):  # the process has already ended
            os.kill(pid, number)
            there = True
    return there


def _marked(folder: Path) -> Iterator[int]:
    """Yield the command's processes, found by their environment."""
    mark = f"MEMREPLAY_DRYRUN={folder}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):  # the process has already ended, or belongs to another user
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
        # A process that only counted the cards didn't use one.
        if facts or calls.asked:
            pickle = base.with_suffix(".pickle")
            whole = bool(facts) and not facts.get("not_written")
            writing = not facts and base.with_suffix(".writing").exists()
            yield Process(
                pid, pickle if whole else None, facts, calls.last, calls.before > 0, writing
            )


def _missing(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.missing")):
        with suppress(OSError, ValueError):
            said = json.loads(path.read_text(encoding="utf-8"))
            yield said["kind"], said["name"]


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
