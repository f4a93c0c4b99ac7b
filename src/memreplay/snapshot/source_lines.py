"""The lines of source code that memreplay's recorder put into a snapshot (docs/format.md)."""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 200  # characters of a line, as the recorder keeps them (recording/source_lines.py)
_DIGITS = 19  # of the largest line


def checked_lines(found: object) -> Mapping[str, Mapping[int, str]]:
    """Return the text of each line by its file and number, from what lies in the file.

    What isn't in the recorder's form is left out, and longer lines are cut.
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
