"""How near two runs of the same cases are, as a dry run and one on a card.

python -m tests.truth --python VENV/bin/python --card H100 --keep DRY
python -m tests.truth --python VENV/bin/python --gpu --keep REAL
python -m tests.truth.against DRY REAL
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import memreplay as mr

SHOWN_MEASURES = ("requested", "active", "reserved")


class Differing(NamedTuple):
    """The peak of a case that is not the same in both."""

    case: str
    measure: str
    first: int
    second: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    asked = parser.parse_args()
    both = [peaks_of(folder) for folder in (asked.first, asked.second)]
    names = [name for name in both[0] if name in both[1]]
    differing = list(found(names, *both))
    for one in differing:
        share = (one.first - one.second) / one.second if one.second else float("inf")
        print(
            f"{one.case}: {one.measure} {one.first:,} and {one.second:,},"
            f" {one.first - one.second:+,} ({share:+.2%})"
        )
    unlike = len({one.case for one in differing})
    print(f"{len(names) - unlike} of {len(names)} cases have the same peaks, to the byte")
    return bool(differing)


def peaks_of(folder: Path) -> dict[str, dict[str, int]]:
    """Bytes at the peak, of each case and each measure."""
    found = {}
    index = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    for name, pid in sorted(index.items()):
        recorded = folder / f"{pid}.recorded.pickle"
        path = recorded if recorded.exists() else folder / f"{pid}.pickle"
        if path.exists():
            replay = mr.open(str(path)).replay(0)
            found[name] = {one: replay.measure(one).peak.bytes for one in SHOWN_MEASURES}
    return found


def found(
    names: list[str], first: dict[str, dict[str, int]], second: dict[str, dict[str, int]]
) -> Iterator[Differing]:
    for name in names:
        for measure in SHOWN_MEASURES:
            one, other = first[name][measure], second[name][measure]
            if one != other:
                yield Differing(name, measure, one, other)


if __name__ == "__main__":
    sys.exit(main())
