"""The library that has one call of the system fail: compiled when it is first asked for."""

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
# As the library has them, which counts in this order.
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
HEAD = 4  # numbers before those of the groups
SIZE = 4 * (HEAD + len(GROUPS))
CRASHES = ("", "ours", "theirs")
LARGE = 64 << 10  # bytes of memory that count, whoever asks for them


def is_possible() -> bool:
    """Whether this system has what the library is made of: Linux with glibc, and a compiler."""
    is_sanitized = "asan" in os.environ.get("LD_PRELOAD", "")  # whose malloc would not be found
    if sys.platform != "linux" or shutil.which("gcc") is None or is_sanitized:
        return False
    import platform

    return platform.libc_ver()[0] == "glibc"


def compiled(folder: Path) -> Path:
    """The library, made in this folder if it is not there yet."""
    made = folder / "shim.so"
    if not made.exists():
        command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([*command, "-o", str(made), str(SOURCE), "-ldl", "-pthread"], check=True)
    return made


@dataclass(frozen=True)
class Fault:
    """What becomes of the call number `at` of a group: an errno by its name, `short`, `kill` before
    the call, `after` it; `on`: of each from there on."""

    group: str
    how: str
    at: int
    on: bool = False

    @property
    def kind(self) -> str:
        return f"{self.group} {self.how}{' on' if self.on else ''}"

    @property
    def is_harmless(self) -> bool:
        """Whether the run has to come to the same all the same."""
        return self.how in ("short", "EINTR")

    def __str__(self) -> str:
        return f"{self.kind} at call {self.at}"


@dataclass(frozen=True)
class Counted:
    """What the library saw in a run."""

    fired: int
    on_output: bool
    crash: str  # whose code it crashed in: ours, theirs; empty where it is not known
    calls: dict[str, int]


def environment(
    under: Path, shared: Path, fault: Fault | None = None, *, early: bool = False
) -> dict[str, str]:
    """What has the library count, and strike."""
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
    """Nothing was counted yet."""
    shared.write_bytes(bytes(SIZE))


def counted(shared: Path) -> Counted:
    """What was counted."""
    found = struct.unpack(f"{HEAD + len(GROUPS)}I", shared.read_bytes())
    _, fired, on_output, crash = found[:HEAD]
    calls = dict(zip(GROUPS, found[HEAD:], strict=True))
    return Counted(fired, bool(on_output), CRASHES[crash], calls)
