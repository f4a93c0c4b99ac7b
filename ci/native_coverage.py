"""Which lines of the native modules ran, by what gcov wrote: a table of files, and what is left.

`ci/native_coverage.py FOLDER` reads the notes below it; --missed names the lines that did not run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

Lines = dict[int, int]  # how often each ran
FLOOR = 95.0


def counted(folder: Path) -> dict[str, Lines]:
    """Of each source below src/ its lines that are code, and how often each ran.

    A line of a .pxd is in several object files: the most of them.
    """
    found: dict[str, Lines] = defaultdict(dict)
    for notes in sorted(folder.rglob("*.gcda")):
        made = subprocess.run(
            ["gcov", "--json-format", "--stdout", notes], capture_output=True, check=True
        ).stdout
        for line in made.splitlines():
            for file in json.loads(line)["files"]:
                path = Path(file["file"])
                if path.suffix not in (".pyx", ".pxd") or "memreplay" not in path.parts:
                    continue
                lines = found["/".join(path.parts[path.parts.index("memreplay") :])]
                for one in file["lines"]:
                    number = one["line_number"]
                    lines[number] = max(lines.get(number, 0), one["count"])
    return found


def runs(numbers: list[int]) -> str:
    """Numbers as ranges: 3-5, 9."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missed", action="store_true", help="name lines that did not run")
    parser.add_argument("--under", default="", help="of files whose path has this alone")
    options = parser.parse_args()
    whole = ran = 0
    for name, lines in sorted(counted(options.folder).items()):
        if options.under not in name:
            continue
        missed = sorted(number for number, count in lines.items() if not count)
        whole, ran = whole + len(lines), ran + len(lines) - len(missed)
        share = 100 * (1 - len(missed) / max(len(lines), 1))
        named = f"  {runs(missed)}" if options.missed and missed else ""
        sys.stdout.write(f"{name:55}{len(lines):>7}{share:>8.1f} %{named}\n")
    share = 100 * ran / max(whole, 1)
    sys.stdout.write(f"{'all':55}{whole:>7}{share:>8.1f} %\n")
    return share < FLOOR


if __name__ == "__main__":
    sys.exit(main())
