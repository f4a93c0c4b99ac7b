"""Prints the console blocks of the documents anew: `python -m tests.reprint [DOCUMENT …]`.

It runs each block as tests/test_project.py does, and rewrites those that no longer match. A line `…`
stays where it was: as many lines as stood before it and after it are shown. Read the diff: a
block that showed a few lines of many without a `…` has all of them now.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.test_project import CONSOLE, DOCUMENTS, ROOT, Step, console_blocks, failures, run_block


def main() -> int:
    asked = [Path(name).resolve() for name in sys.argv[1:]] or DOCUMENTS
    for path in asked:
        text = path.read_text(encoding="utf-8")
        anew = CONSOLE.sub(lambda found: reprinted(found[0]), text)
        if anew != text:
            path.write_text(anew, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: printed anew")
    return 0


def reprinted(block: str) -> str:
    """The block as its commands print it now; as it is where it needs no change."""
    for steps in console_blocks(block):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
            if not failures(steps, Path(folder)):
                return block
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples", target_is_directory=True)
            lines = [line for ran in run_block(steps, Path(folder)) for line in shown(*ran[:2])]
        return "\n".join(["```console", *lines, "```"])
    return block


def shown(step: Step, output: str) -> list[str]:
    """A command and its output, shortened where it was."""
    printed = [line.rstrip() for line in output.strip("\n").splitlines()]
    marks = [at for at, line in enumerate(step.shown) if line.strip() in ("…", "...")]
    if marks:
        after = len(step.shown) - marks[-1] - 1
        end = printed[len(printed) - after :] if after else []
        printed = [*printed[: marks[0]], step.shown[marks[0]], *end]
    blank = step.shown[-1:] == [""]  # before the next command
    return [f"$ {step.command}", *(printed if step.shown else []), *([""] if blank else [])]


if __name__ == "__main__":
    sys.exit(main())
