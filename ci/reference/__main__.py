"""Makes docs/reference from the commands themselves and from docstrings, and a table of numbers.md.

python -m ci.reference            write the pages
python -m ci.reference --check    say what differs from what is committed, and exit with 1
"""

from __future__ import annotations

import sys
from pathlib import Path

from ci.reference import commands, library, ways

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


def made() -> dict[Path, str]:
    """Every page that is made, and what should be in it."""
    return {
        PAGES / "commands.md": commands.page(),
        PAGES / "python.md": library.page(),
        ways.PAGE: ways.page(_text(ways.PAGE)),
    }


def main() -> int:
    """Write all that differs, or name it."""
    check = "--check" in sys.argv[1:]
    differing = [(path, text) for path, text in made().items() if _text(path) != text]
    for path, text in differing:
        if check:
            sys.stdout.write(
                f"{path.relative_to(ROOT)} is not what the code says: make reference\n"
            )
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return int(bool(differing) and check)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
