"""Find the Python that a command runs, and its torch."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memreplay.dryrun.installing import NEW_PYTHON, Installer
from memreplay.dryrun.runtime import NoCudaError
from memreplay.errors import UsageError

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?$")
# The kernel reads fewer bytes of a `#!` line, but pip's workaround for long paths needs more.
_FIRST_BYTES = 4096

# Find torch without importing it, because importing takes seconds and may have side effects.
_ASK = """
import importlib.util, json, os, platform, sys, sysconfig
spec = importlib.util.find_spec("torch")
try:
    made_by = open(os.path.join(sys.prefix, "pyvenv.cfg")).read()
except OSError:
    made_by = ""
managed = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print("memreplay asks:")
print(json.dumps({
    "version": sys.version_info[:2],
    "machine": platform.machine(),
    "pip": importlib.util.find_spec("pip") is not None,
    "uv": "\\nuv = " in "\\n" + made_by,
    "managed": sys.prefix == sys.base_prefix and os.path.exists(managed),
}))
print(*(spec.submodule_search_locations or [""] if spec else [""])[:1])
if spec:
    from importlib import metadata
    try:
        print(metadata.version("torch"))
        print(*metadata.requires("torch") or (), sep="\\n")
    except metadata.PackageNotFoundError:
        pass
"""


class Torch(NamedTuple):
    """A Python's torch."""

    python: str
    """The interpreter."""
    package: Path
    """Torch's folder."""
    version: str
    cudnn: int | None
    """The cuDNN version that it was built for, in cudnnGetVersion's format; None if unknown."""
    installer: Installer
    """How to install another one."""


def interpreter(command: Sequence[str]) -> str:
    """Return the Python that a command runs.

    That's the command itself, the interpreter of a script, or otherwise `python3`. Raises
    UsageError if the command isn't found.
    """
    found = shutil.which(command[0])
    if found is None:
        there = os.path.exists(command[0])
        hint = f"; to run a script: python {command[0]}" if there else ""
        raise UsageError(f"{command[0]}: command not found{hint}")
    if _PYTHON.match(os.path.basename(found)):
        return found
    words = list(command) if os.path.basename(found) == "env" else _first_line(found)
    if words and os.path.basename(words[0]) == "env":
        words = [one for one in words[1:] if not one.startswith("-") and "=" not in one]
    for word in words:
        if _PYTHON.match(os.path.basename(word)):
            beside = os.path.join(os.path.dirname(found), os.path.basename(word))
            return shutil.which(word) or shutil.which(beside) or word
    return shutil.which("python3") or shutil.which("python") or sys.executable


def _first_line(path: str) -> list[str]:
    """Return the command in a script's first line.

    If the path is long, pip's scripts are run by sh, and name Python in their second line.
    """
    with open(path, "rb") as file:
        start = file.read(_FIRST_BYTES)
    if not start.startswith(b"#!"):
        return []
    lines = start[2:].decode("utf-8", "replace").split("\n")
    if len(lines) > 1 and lines[1].startswith("'''exec'"):
        lines[0] = lines[1][len("'''exec'") :]
    try:
        return shlex.split(lines[0])
    except ValueError:
        return []


def torch_of(python: str) -> Torch:
    """Return a Python's torch. Raises NoCudaError if there is none."""
    try:
        asked = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{python} doesn't run: {error}") from None
    # A sitecustomize may have printed something before this.
    lines = asked.stdout.partition("memreplay asks:\n")[2].splitlines()
    if asked.returncode or not lines:
        last = asked.stderr.strip().splitlines()[-1:] or [f"exit code {asked.returncode}"]
        raise UsageError(f"{python} doesn't run: {last[0]}")
    said = json.loads(lines[0])
    said["uv"] = said["uv"] or (not said["pip"] and shutil.which("uv") is not None)
    installer = Installer(python, **{**said, "version": tuple(said["version"])})
    if not lines[1]:
        run = f", and dry-run with {NEW_PYTHON}" if installer.managed else ""
        raise NoCudaError(
            f"{python} has no torch; install it: {installer.install()}{run} (a dry run needs none"
            " of NVIDIA's libraries)"
        )
    version = lines[2] if len(lines) > 2 else ""
    return Torch(python, Path(lines[1]), version, _cudnn(lines[3:]), installer)


def _cudnn(requirements: list[str]) -> int | None:
    """Parse the version in `nvidia-cudnn-cu13==9.26.0.51`. Before cuDNN 9, the number had one digit
    fewer.
    """
    for one in requirements:
        found = re.match(r"nvidia-cudnn-cu\d+==(\d+)\.(\d+)\.(\d+)", one)
        if found:
            major, minor, patch = map(int, found.groups())
            return major * (10000 if major >= 9 else 1000) + minor * 100 + patch
    return None
