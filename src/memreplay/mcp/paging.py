"""Split an answer into pages of limited size, and keep the pages that weren't sent yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from msgspec import Struct

from memreplay.errors import UsageError
from memreplay.render.compact import CompactLine
from memreplay.render.units import counted

MOST_BYTES = 8_000  # maximum UTF-8 bytes per page, including its head and foot
LONGEST = 3_000  # maximum bytes per line, because names in files have no length limit
_HEAD, _FOOT = 1_000, 120  # bytes reserved for head and foot
_ANSWERS = 8  # maximum number of answers kept
_KEPT_BYTES = 16 << 20  # maximum number of bytes kept; the newest answer is always kept


class Answer(Struct, frozen=True):
    """An answer's pages. Each page has lines, and the column titles of its first row."""

    what: str
    pages: tuple[tuple[CompactLine, ...], ...]
    n_bytes: int


def paged(what: str, lines: Sequence[CompactLine]) -> Answer:
    """Distribute lines over as few pages as possible. Pages preferably start at a row."""
    pages: list[tuple[CompactLine, ...]] = []
    page: list[CompactLine] = []
    room = limit = MOST_BYTES - _FOOT
    total = 0
    for line in lines:
        line = CompactLine(bounded(line.text), line.titles)
        taken = _bytes(line.text) + 1
        total += taken
        if page and taken > room:
            pages.append(tuple(page))
            page, room = [], limit - _HEAD
        page.append(line)
        room -= taken
    pages.append(tuple(page))
    return Answer(what, tuple(pages), total)


def _bytes(text: str) -> int:
    return len(text.encode())


def bounded(text: str) -> str:
    """Cut a line to the limit and note how much is missing."""
    raw = text.encode()
    if len(raw) <= LONGEST:
        return text
    kept = raw[: LONGEST - 40].decode(errors="ignore")
    return f"{kept}… ({len(raw) - _bytes(kept):,} bytes more)"


class Answers:
    """The last multi-page answers, by number."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Answer] = OrderedDict()
        self._lock = Lock()
        self._number = 0

    def first(self, answer: Answer) -> str:
        """Return the first page, and keep the others."""
        if len(answer.pages) == 1:
            return page_text(answer, 1, "")
        with self._lock:
            self._number += 1
            number = self._number
            self._kept[number] = answer
            while len(self._kept) > _ANSWERS or (
                len(self._kept) > 1
                and sum(one.n_bytes for one in self._kept.values()) > _KEPT_BYTES
            ):
                self._kept.popitem(last=False)
        return page_text(answer, 1, f"{number}.2")

    def page(self, cursor: str) -> str:
        """Return a cursor's page. Raises UsageError if there is none."""
        number, dot, page = cursor.strip().partition(".")
        if not (dot and _is_number(number) and _is_number(page)):
            raise UsageError(f"cursor {cursor!r}: copy it from the end of an answer, such as 3.2")
        with self._lock:
            answer = self._kept.get(int(number))
            if answer is not None:
                self._kept.move_to_end(int(number))
        if answer is None:
            raise UsageError(f"cursor {cursor}: that answer has expired; ask again")
        at = int(page)
        if not 1 <= at <= len(answer.pages):
            raise UsageError(f"cursor {cursor}: that answer has {len(answer.pages)} pages")
        return page_text(answer, at, f"{number}.{at + 1}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def page_text(answer: Answer, page: int, cursor: str) -> str:
    """Format a page.

    All but the first have a head; all but the last say how much remains. `cursor` requests the next
    page.
    """
    lines = answer.pages[page - 1]
    parts = [line.text for line in lines]
    if page > 1:
        head = f"page {page} of {len(answer.pages)}: {answer.what}"
        titles = lines[0].titles if lines else ""
        if titles:
            head += f"; columns: {titles}"
        parts.insert(0, _bounded_head(head))
    left = sum(map(len, answer.pages[page:]))
    if left:
        parts.append(f'… {counted(left, "more line")}: more(cursor="{cursor}")')
    return "\n".join(parts)


def _bounded_head(text: str) -> str:
    raw = text.encode()
    return text if len(raw) < _HEAD else raw[: _HEAD - 10].decode(errors="ignore") + "…"
