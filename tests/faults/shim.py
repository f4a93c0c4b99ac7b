"""The fault library, which makes one system call fail; compiled on first use."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
# Groups of calls, in the same order as the counts in shared memory.
GROUPS = (
    "open",
    "read",
    "write",
    "stat",
    "close",
    "rename",
    "unlink",
    "mkdir",
    "fsync",
    "truncate",
    "link",
    "chmod",
    "list",
    "seek",
    "lock",
    "mmap",
    "malloc",
    "memory",
    "thread",
    "pipe",
    "fork",
)
HEAD = 4  # other numbers that precede the counts
SIZE = 4 * (HEAD + len(GROUPS))
CRASHES = ("", "ours", "theirs")
LARGE = 64 << 10  # memory requests of at least this many bytes count, whichever module makes them


def is_possible() -> bool:
    """Return whether this system supports the library: Linux with glibc, and a compiler."""
    is_sanitized = "asan" in os.environ.get("LD_PRELOAD", "")  # has its own malloc
    if sys.platform != "linux" or shutil.which("gcc") is None or is_sanitized:
        return False
    import platform

    return platform.libc_ver()[0] == "glibc"


def compiled(folder: Path) -> Path:
    """Return the library, building it in this folder if needed."""
    made = folder / "shim.so"
    if not made.exists():
        command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([*command, "-o", str(made), str(SOURCE), "-ldl", "-pthread"], check=True)
    return made


@dataclass(frozen=True)
class Fault:
    """A failure of call number `at` in a group: an errno name, `short`, `kill` (before the call) or
    `after` (kill after it). With `on`, all later calls fail too.
    """

    group: str
    how: str
    at: int
    on: bool = False

    @property
    def kind(self) -> str:
        return f"{self.group} {self.how}{' on' if self.on else ''}"

    @property
    def is_harmless(self) -> bool:
        """Return whether the run must give the same result despite the fault."""
        return self.how in ("short", "EINTR")

    def __str__(self) -> str:
        return f"{self.kind} at call {self.at}"


@dataclass(frozen=True)
class Counted:
    """The calls that the library saw in a run."""

    fired: int
    on_output: bool
    crash: str  # whose code crashed, ours or theirs; empty if unknown
    calls: dict[str, int]


def environment(
    under: Path, shared: Path, fault: Fault | None = None, *, early: bool = False
) -> dict[str, str]:
    """Return the environment variables that tell the library which call to fail."""
    found = {
        "FAULTS_UNDER": f"{under}/",
        "FAULTS_SHARED": str(shared),
        "FAULTS_LARGE": str(LARGE),
        "FAULTS_STDOUT": "1",
        "FAULTS_EARLY": str(int(early)),
        "FAULTS_CRASHES": "1",
        "FAULTS_CALL": "",
        "FAULTS_AT": "",
        "FAULTS_HOW": "",
        "FAULTS_ON": "",
    }
    if fault is not None:
        how = fault.how if fault.how in ("short", "kill", "after") else getattr(errno, fault.how)
        found["FAULTS_CALL"] = fault.group
        found["FAULTS_AT"] = str(fault.at)
        found["FAULTS_HOW"] = str(how)
        found["FAULTS_ON"] = str(int(fault.on))
    return found


def blank(shared: Path) -> None:
    """Reset the counts."""
    shared.write_bytes(bytes(SIZE))


def counted(shared: Path) -> Counted:
    """Return the counts."""
    found = struct.unpack(f"{HEAD + len(GROUPS)}I", shared.read_bytes())
    _, fired, on_output, crash = found[:HEAD]
    calls = dict(zip(GROUPS, found[HEAD:], strict=True))
    return Counted(fired, bool(on_output), CRASHES[crash], calls)
