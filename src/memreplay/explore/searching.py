"""Find the next row that matches a regular expression, visible or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

from memreplay.errors import UsageError
from memreplay.explore.rows.calls import TreeRows
from memreplay.explore.rows.row import Rows


def pattern_of(text: str) -> re.Pattern[str]:
    """Compile a search pattern. A pattern in lower case matches both cases. Raises UsageError."""
    try:
        return re.compile(text, 0 if text != text.lower() else re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"{text!r} isn't a regular expression: {error}") from None


def find(
    rows: Rows,
    opened: dict[Hashable, bool],
    pattern: re.Pattern[str],
    row: int,
    *,
    by: int = 1,
) -> int | None:
    """Return the next matching row, wrapping around; None if there is none.

    `by`: 1 for the rows after this one, -1 for those before, 0 for this one and those after.

    Calls that hide the row are marked as expanded.
    """
    if not isinstance(rows, TreeRows):
        return _around(len(rows), row, rows.texts, pattern, by)
    at = rows.visible[row] if 0 <= row < len(rows.visible) else len(rows.rows) - 1
    found = _around(len(rows.rows), at if at >= 0 else ~at, rows.texts_of, pattern, by)
    if found is None:
        return None
    if found not in rows.visible:
        opened.update(dict.fromkeys(rows.parents(found), True))
        rows.unfold()
    return rows.visible.index(found) if found in rows.visible else None


def _around(
    count: int,
    begin: int,
    texts: Callable[[int], Sequence[str]],
    pattern: re.Pattern[str],
    by: int,
) -> int | None:
    for i in range(abs(by), count + abs(by)):
        at = (begin + (by or 1) * i) % count
        if any(map(pattern.search, texts(at))):
            return at
    return None
