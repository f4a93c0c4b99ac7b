"""Print a map of src/memreplay: each file's job, from its first line, and the engine's imports.

    python ci/map.py                  everything, folder by folder
    python ci/map.py engine/read      one folder and its subfolders

The map isn't committed, because it only repeats the first line and the cimports of each file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "memreplay"
KINDS = {".py", ".pyx", ".pxd", ".c", ".h"}
CIMPORT = re.compile(r"^\s*from\s+memreplay\.([\w.]+)\s+cimport\s+([^\n]+)", re.MULTILINE)
JOB = re.compile(r'(?:#|//|r?"""|/\*)\s*(.*?)(?:"""|\*/)?$')


def main(arguments: list[str]) -> int:
    """Print the map of the given folder, or of everything."""
    below = PACKAGE / arguments[0].removeprefix("src/memreplay/") if arguments else PACKAGE
    if not below.is_dir():
        sys.stderr.write(f"{below} isn't a folder of src/memreplay\n")
        return 2
    sys.stdout.write("\n".join(lines(below)) + "\n")
    return 0


def lines(below: Path) -> Iterator[str]:
    """Return the map: a heading for each folder, a line for each module."""
    for folder in (below, *sorted(path for path in below.rglob("*") if path.is_dir())):
        files = sorted(path for path in folder.iterdir() if path.suffix in KINDS)
        modules: dict[str, list[Path]] = {}
        for path in files:
            if path.stem != "__init__":
                modules.setdefault(path.stem, []).append(path)
        if not modules:
            continue
        yield f"\n{folder.relative_to(PACKAGE.parent)}/"
        width = max(map(len, modules))
        for stem, some in modules.items():
            # If a module has both a declaration and a body, use the declaration's description.
            first = next((path for path in some if path.suffix == ".pxd"), some[0])
            yield f"  {stem.ljust(width)}  {job(first)}"
            if uses := used(some):
                yield f"  {' ' * width}    uses {', '.join(uses)}"


def job(path: Path) -> str:
    """Return the job that a file's first line names."""
    for line in path.read_text(encoding="utf-8").splitlines()[:2]:
        if not line.startswith("#!") and (found := JOB.match(line)):
            return found[1]
    return ""


def used(paths: list[Path]) -> list[str]:
    """Return the engine modules that these files of one module cimport, in order."""
    found = set()
    for path in paths:
        if path.suffix in (".pyx", ".pxd"):
            for place, names in CIMPORT.findall(path.read_text(encoding="utf-8")):
                folder = (PACKAGE / place.replace(".", "/")).is_dir()
                some = [name.split()[0] for name in names.split(",")] if folder else []
                found.update([f"{place}.{name}" for name in some] or [place])
    return sorted(name.removeprefix("engine.") for name in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
