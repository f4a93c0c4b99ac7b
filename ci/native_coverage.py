"""Report which lines of the native modules ran, from gcov's data.

`ci/native_coverage.py FOLDER` reads the notes below FOLDER; --missed lists lines that didn't run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

Lines = dict[int, int]  # maps each line to how often it ran
FLOOR = 95.0
SOURCES = Path(__file__).parents[1] / "src"
RECORDER = "memreplay/engine/record/"  # the recorder doesn't read files
FAILED = re.compile(r"\b(?:ERR|NO)_MEMORY\b|\bMemoryError\b|return FAST_FAIL$")
# Cython puts this comment before a line's C code: `  /* "memreplay/engine/read/vm.pyx":12`.
MARK = re.compile(r'\s+/\* "(memreplay/[^"]+\.p[yx][xd])":(\d+)$')


def sources_of(code: str) -> list[tuple[str, int] | None]:
    """Return, for each line of C code, its Cython source and line.

    None for lines without one: outside functions, and at the end of a function.
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
    """Return, for each source below src/, its code lines and how often each ran.

    gcov only counts lines of C. (`#line` directives don't help, because the number increases with
    each line of C.) A Cython line ran as often as its most frequent C line. A .pxd line may be in
    several object files.
    """
    found: dict[str, Lines] = defaultdict(dict)
    # Include modules that nothing imported. They have notes but no counts.
    for notes in sorted(folder.rglob("*.gcno")):
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


def of_memory(code: str) -> set[int]:
    """Return the lines of a source that run only if a memory request fails, because they report the
    failure or pass it on.

    They're found by their text. `make memory` runs them.
    """
    found: set[int] = set()
    before = ""
    for number, line in enumerate(code.splitlines(), 1):
        called = before.startswith(("if ", "elif ")) and before.endswith(("< 0:", "== NONE32:"))
        if FAILED.search(line) or (called and line.strip() in ("return -1", "return NONE32")):
            found.add(number)
        before = line.strip()
    return found


def runs(numbers: list[int]) -> str:
    """Format numbers as ranges: 3-5, 9."""
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
    parser.add_argument("--under", default="", help="only files whose path contains this")
    options = parser.parse_args()
    whole = ran = left = 0
    for name, lines in sorted(counted(options.folder).items()):
        if options.under not in name or name.startswith(RECORDER):
            continue
        missed = {number for number, count in lines.items() if not count}
        failing = missed & of_memory((SOURCES / name).read_text(encoding="utf-8"))
        missed -= failing
        whole, ran, left = whole + len(lines), ran + len(lines), left + len(failing)
        ran -= len(missed) + len(failing)
        share = 100 * (1 - len(missed) / max(len(lines) - len(failing), 1))
        named = f"  {runs(sorted(missed))}" if options.missed and missed else ""
        sys.stdout.write(f"{name:55}{len(lines):>7}{share:>8.1f} %{named}\n")
    share = 100 * ran / max(whole - left, 1)
    said = f"{'all':55}{whole:>7}{share:>8.1f} %, {100 * ran / max(whole, 1):.1f} % counting"
    sys.stdout.write(f"{said} {left:,} out-of-memory lines (make faults)\n")
    return share < FLOOR


if __name__ == "__main__":
    sys.exit(main())
