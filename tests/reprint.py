"""Update the console blocks of the documents: `python -m tests.reprint [DOCUMENT …]`.

It runs each block as tests/test_project.py does, and rewrites those that no longer match. A `…`
line stays where it was. The number of lines between two `…` lines stays the same; they start where
the output is most similar to the old lines. Check the diff, because a block that omitted lines
without a `…` now has all of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path

from tests.test_project import CONSOLE, DOCUMENTS, ROOT, Step, console_blocks, failures, run_block

MARKS = ("…", "...")


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
    """Return the block with its commands' current output, or unchanged if it matches."""
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
    """Return a command and its output, shortened as before."""
    printed = [line.rstrip() for line in output.strip("\n").splitlines()]
    blank = step.shown[-1:] == [""]  # the blank line before the next command
    if any(line.strip() in MARKS for line in step.shown):
        printed = list(shortened(step.shown[:-1] if blank else step.shown, printed))
    return [f"$ {step.command}", *(printed if step.shown else []), *([""] if blank else [])]


def shortened(before: list[str], printed: list[str]) -> Iterator[str]:
    """Fill the gaps between `…` lines with output lines, from the most similar position on."""
    at = 0
    for is_mark, run in groupby(before, lambda line: line.strip() in MARKS):
        part = list(run)
        if is_mark:
            yield from part
            continue
        last = max(at, len(printed) - len(part))
        begin = max(range(at, last + 1), key=lambda i: likeness(part, printed[i:]))
        at = begin + len(part)
        yield from printed[begin:at]


def likeness(before: list[str], printed: list[str]) -> float:
    return sum(
        SequenceMatcher(None, old, new).ratio() for old, new in zip(before, printed, strict=False)
    )


if __name__ == "__main__":
    sys.exit(main())
