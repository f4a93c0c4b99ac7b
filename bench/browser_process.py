"""Measure the CPU time and memory of a browser's processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
# Only these processes run pages; the browser's other processes display the results.
KINDS = ("--type=renderer", "--type=gpu-process")


@dataclass(frozen=True)
class Processes:
    """The browser processes started by a given process, and their memory at the start."""

    root: int
    at_first: int

    @staticmethod
    def of(root: int) -> Processes:
        """Return the descendants of the process `root`."""
        return Processes(root, sum(map(_private_bytes, _below(root))))

    def cpu_seconds(self) -> float:
        """Return the processes' total CPU time so far."""
        return sum(map(_cpu_seconds, _below(self.root)))

    def held_bytes(self) -> int:
        """Return how much more memory the processes hold than at first, without shared pages."""
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
    """Return the fields of /proc/PID/stat from the state on; the name before the state may contain
    spaces and brackets.
    """
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
