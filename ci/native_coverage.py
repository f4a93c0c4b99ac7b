"""Which lines of the native modules ran, by what gcov wrote: a table of files, and what is left.

`ci/native_coverage.py FOLDER` reads the notes below it; --missed names the lines that did not run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

Lines = dict[int, int]  # how often each ran
FLOOR = 95.0
# What Cython writes before the C code of a line: `  /* "memreplay/engine/read/vm.pyx":12`.
MARK = re.compile(r'\s+/\* "(memreplay/[^"]+\.p[yx][xd])":(\d+)$')


def sources_of(code: str) -> list[tuple[str, int] | None]:
    """Of each line of C code, from its first on, the source and the line that it was made of.

    None where it is none's: outside of functions, and where a function ends.
    """
    found: list[tuple[str, int] | None] = []
    at = None
    for line in code.splitlines():
        if mark := MARK.match(line):
            at = (mark[1], int(mark[2]))
        elif (line[:1].strip() and line[0] not in "#*") or line == "  /* function exit code */":
            at = None
        found.append(at)
    return found


def counted(folder: Path) -> dict[str, Lines]:
    """Of each source below src/ its lines that are code, and how often each ran.

    gcov knows lines of C alone (a `#line` would count on through all C code that one line becomes).
    One of Python's ran as often as the C code of it that ran most; one of a .pxd is in several
    object files.
    """
    found: dict[str, Lines] = defaultdict(dict)
    for notes in sorted(folder.rglob("*.gcda")):
        made = subprocess.run(
            ["gcov", "--json-format", "--stdout", notes], capture_output=True, check=True
        ).stdout
        for line in made.splitlines():
            said = json.loads(line)
            for file in said["files"]:
                path = Path(said["current_working_directory"], file["file"])
                if path.suffix != ".c" or "memreplay" not in path.parts:
                    continue
                sources = sources_of(path.read_text(encoding="utf-8"))
                for one in file["lines"]:
                    source = sources[one["line_number"] - 1]
                    if source is not None:
                        lines = found[source[0]]
                        lines[source[1]] = max(lines.get(source[1], 0), one["count"])
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
