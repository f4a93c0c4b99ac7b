"""Source lines that memreplay's recorder stored in a snapshot (docs/format.md)."""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 200  # maximum line length that the recorder keeps (recording/source_lines.py)
_DIGITS = 19  # maximum number of digits in a line number


def checked_lines(found: object) -> Mapping[str, Mapping[int, str]]:
    """Return source lines by file and line number, from the value in the snapshot.

    Anything that isn't in the recorder's format is dropped, and longer lines are cut.
    """
    lines: dict[str, dict[int, str]] = {}
    for file, texts in found.items() if isinstance(found, dict) else ():
        if isinstance(texts, dict):
            lines[file] = {
                int(number): text.strip()[:LONGEST]
                for number, text in texts.items()
                if isinstance(text, str) and _is_line(number)
            }
    return lines


def _is_line(number: str) -> bool:
    return number.isascii() and number.isdecimal() and len(number) <= _DIGITS
