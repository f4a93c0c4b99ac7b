"""The processes of a browser that a script started: their CPU time, and their memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
# What pages run in; the processes beside draw what they are told to.
KINDS = ("--type=renderer", "--type=gpu-process")


@dataclass(frozen=True)
class Processes:
    """Those of the browser below some process, and what they held when this was made."""

    root: int
    at_first: int

    @staticmethod
    def of(root: int) -> Processes:
        """Those below this process."""
        return Processes(root, sum(map(_private_bytes, _below(root))))

    def cpu_seconds(self) -> float:
        """Of all of them until now."""
        return sum(map(_cpu_seconds, _below(self.root)))

    def held_bytes(self) -> int:
        """What they hold more than at first, shared pages left out."""
        return sum(map(_private_bytes, _below(self.root))) - self.at_first


def _below(root: int) -> Iterator[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = _stat(int(folder.name))[1]
            except OSError:
                continue
    for process in parents:
        up = process
        while up in parents and up != root:
            up = int(parents[up])
        if up == root and process != root and _kind(process):
            yield process


def _kind(process: int) -> bool:
    try:
        line = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return any(kind in line for kind in KINDS)


def _stat(process: int) -> list[str]:
    """From the state on: names of programs may have blanks and brackets."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _cpu_seconds(process: int) -> float:
    try:
        stat = _stat(process)
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / TICKS


def _private_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))
