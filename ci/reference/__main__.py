"""Generate docs/reference from the commands and docstrings, and a table of docs/numbers.md.

python -m ci.reference            write the pages
python -m ci.reference --check    list committed pages that are out of date, and exit with 1

docs/reference/python.md isn't committed: the build of the documentation site generates it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ci.reference import commands, library, ways

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


def committed_pages() -> dict[Path, str]:
    """Return the committed pages that are generated, and what each should contain."""
    return {
        PAGES / "commands.md": commands.page(),
        ways.PAGE: ways.page(_text(ways.PAGE)),
    }


def main() -> int:
    """Write the pages that differ, or list them."""
    check = "--check" in sys.argv[1:]
    pages = committed_pages()
    if not check:
        pages[PAGES / "python.md"] = library.page()
    differing = [(path, text) for path, text in pages.items() if _text(path) != text]
    for path, text in differing:
        if check:
            sys.stdout.write(f"{path.relative_to(ROOT)} is out of date: make reference\n")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return int(bool(differing) and check)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
