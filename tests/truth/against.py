"""Compare two runs of the same cases, such as a dry run and a run on a GPU.

python -m tests.truth --python VENV/bin/python --card H100 --keep DRY
python -m tests.truth --python VENV/bin/python --gpu --keep REAL
python -m tests.truth.against DRY REAL
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import memreplay as mr
from memreplay.snapshot.model import MeasureName

COMPARED: tuple[MeasureName, ...] = ("requested", "active", "reserved")
INDEX = "cases.json"
"""In a folder that is kept: of each case that ended well its process, by which files are called."""

Peaks = dict[str, dict[MeasureName, int]]
"""Bytes at the peak, of each case and each measure."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    asked = parser.parse_args()
    lines, alike = told(peaks_of(asked.first), peaks_of(asked.second))
    print(*lines, sep="\n")
    return int(not alike)


def write_index(folder: Path, processes: dict[str, int]) -> None:
    (folder / INDEX).write_text(json.dumps(processes, indent=1), encoding="utf-8")


def peaks_of(folder: Path) -> Peaks:
    found: Peaks = {}
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    for name, pid in sorted(index.items()):
        recorded = folder / f"{pid}.recorded.pickle"
        path = recorded if recorded.exists() else folder / f"{pid}.pickle"
        replay = mr.open(path).replay(0)
        found[name] = {one: replay.measure(one).peak.bytes for one in COMPARED}
    return found


def told(first: Peaks, second: Peaks) -> tuple[list[str], bool]:
    """Return lines to print (each different peak, each case that only one run has, and the counts),
    and whether all peaks are equal.
    """
    both = [name for name in first if name in second]
    lines = [f"{name}: in one of them" for name in sorted(first.keys() ^ second.keys())]
    alike = dict.fromkeys(COMPARED, 0)
    wholly = 0
    for name in both:
        differing = [one for one in COMPARED if first[name][one] != second[name][one]]
        wholly += not differing
        for one in COMPARED:
            alike[one] += one not in differing
        for one in differing:
            mine, other = first[name][one], second[name][one]
            share = f"{(mine - other) / other:+.2%}" if other else "of nothing"
            lines.append(f"{name}: {one} {mine:,} and {other:,}, {mine - other:+,} ({share})")
    counts = ", ".join(f"{count} {one}" for one, count in alike.items())
    lines.append(f"of {len(both)} cases the same peak, to the byte: {counts}; all three {wholly}")
    return lines, bool(both) and len(lines) == 1


if __name__ == "__main__":
    sys.exit(main())
