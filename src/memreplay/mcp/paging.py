"""Cuts an answer into pages of bounded size, and keeps those that are not sent yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from msgspec import Struct

from memreplay.errors import UsageError
from memreplay.render.compact import CompactLine
from memreplay.render.units import counted

MOST_BYTES = 8_000  # of a page as UTF-8, its head and foot among them
LONGEST = 3_000  # bytes of a line: a file may name anything
_HEAD, _FOOT = 1_000, 120  # what is left free for them
_ANSWERS = 8  # that are kept
_KEPT_BYTES = 16 << 20  # of their text; the newest one is kept however long it is


class Answer(Struct, frozen=True):
    """The pages of an answer, each as the lines that are on it and the titles of its first row."""

    what: str
    pages: tuple[tuple[CompactLine, ...], ...]
    n_bytes: int


def paged(what: str, lines: Sequence[CompactLine]) -> Answer:
    """The lines on as few pages as hold them. A page begins at a row where it can, not in the
    middle of one: a row is a line."""
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
    """A line, or as much of it as may stand in one, and how much is missing."""
    raw = text.encode()
    if len(raw) <= LONGEST:
        return text
    kept = raw[: LONGEST - 40].decode(errors="ignore")
    return f"{kept}… ({len(raw) - _bytes(kept):,} bytes more)"


class Answers:
    """The last few answers of more than one page, by a number."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Answer] = OrderedDict()
        self._lock = Lock()
        self._number = 0

    def first(self, answer: Answer) -> str:
        """Its first page; the others are kept."""
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
        """The page that a cursor names. Raises UsageError where there is none."""
        number, dot, page = cursor.strip().partition(".")
        if not (dot and _is_number(number) and _is_number(page)):
            raise UsageError(f"cursor {cursor!r}: copy it from the end of an answer, as 3.2")
        with self._lock:
            answer = self._kept.get(int(number))
            if answer is not None:
                self._kept.move_to_end(int(number))
        if answer is None:
            raise UsageError(f"cursor {cursor}: that answer is not kept any more; ask again")
        at = int(page)
        if not 1 <= at <= len(answer.pages):
            raise UsageError(f"cursor {cursor}: that answer has {len(answer.pages)} pages")
        return page_text(answer, at, f"{number}.{at + 1}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def page_text(answer: Answer, page: int, cursor: str) -> str:
    """A page with its head, where it is not the first, and what is left, where it is not the last;
    `cursor` asks for the next one."""
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
