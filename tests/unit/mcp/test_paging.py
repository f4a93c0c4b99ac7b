"""Pages contain all lines once, in order, within the limit; each says how to continue."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.errors import UsageError
from memreplay.mcp import paging
from memreplay.mcp.paging import LONGEST, MOST_BYTES, Answers, page_text, paged
from memreplay.render.compact import CompactLine

FOOT = re.compile(r'… ([\d,]+) more lines?: more\(cursor="([\d.]+)"\)')
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=60)
LINES = st.builds(
    lambda text, times, titles: CompactLine(text * times, titles),
    TEXTS,
    st.sampled_from([1, 1, 1, 40, 400]),
    st.sampled_from(["", "a | b", "t" * 3000]),
)


def read(answers: Answers, text: str) -> list[str]:
    """Return all lines of an answer, page after page, without headings and footers."""
    found: list[str] = []
    first = True
    while True:
        assert len(text.encode()) <= MOST_BYTES
        lines = text.split("\n")
        if not first:
            assert re.match(r"page \d+ of \d+: peak", lines[0])
            lines = lines[1:]
        match = FOOT.fullmatch(lines[-1])
        if match is None:
            return found + lines
        found += lines[:-1]
        text, first = answers.page(match[2]), False


@given(st.lists(LINES, min_size=1, max_size=200))
def test_pages_add_up_to_the_answer(lines: list[CompactLine]) -> None:
    answers = Answers()
    answer = paged("peak(file='a')", lines)
    found = read(answers, answers.first(answer))
    assert len(found) == len(lines)
    for shown, line in zip(found, lines, strict=True):
        if len(line.text.encode()) <= LONGEST:
            assert shown == line.text
        else:
            kept, _, more = shown.rpartition("… (")
            assert line.text.startswith(kept)
            left = len(line.text.encode()) - len(kept.encode())
            assert more == f"{left:,} bytes more)"


def test_footer_counts_the_remaining_text() -> None:
    lines = [CompactLine(f"{i} {'x' * 990}") for i in range(100)]
    answers = Answers()
    text, total = answers.first(paged("sql()", lines)), 0
    while (match := FOOT.search(text)) is not None:
        total += len([line for line in text.split("\n") if line.endswith("xx")])
        assert int(match[1]) == 100 - total
        text = answers.page(match[2])
    assert total > 80


def test_page_that_starts_inside_a_table_repeats_the_headings() -> None:
    rows = [CompactLine(f"{i} | {'y' * 900}", "n | name") for i in range(20)]
    answers = Answers()
    answers.first(paged("sql()", [CompactLine("20 rows"), CompactLine("n | name"), *rows]))
    assert answers.page("1.2").startswith("page 2 of 3: sql(); columns: n | name\n")
    notes = [CompactLine("z" * 2000)] * 8
    answers.first(paged("report()", notes))
    assert answers.page("2.2").split("\n")[0] == "page 2 of 3: report()"


def test_short_answer_is_one_page() -> None:
    answers = Answers()
    assert answers.first(paged("peak()", [CompactLine("a"), CompactLine("b")])) == "a\nb"
    assert answers.first(paged("peak()", [])) == ""
    with pytest.raises(UsageError, match="has expired"):
        answers.page("1.2")


@pytest.mark.parametrize("cursor", ["", "1", "1.", ".2", "a.b", "-1.2", "1.2.3", "²." + "9" * 5000])
def test_invalid_cursor_is_refused_with_advice(cursor: str) -> None:
    with pytest.raises(UsageError, match="copy it from the end of an answer"):
        Answers().page(cursor)


def test_page_out_of_range_is_refused() -> None:
    answers = Answers()
    answers.first(paged("peak()", [CompactLine("w" * 2900)] * 6))
    assert answers.page(" 1.1 ").startswith("w")
    for page in (0, 4):
        with pytest.raises(UsageError, match="has 3 pages"):
            answers.page(f"1.{page}")


def test_old_answers_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_ANSWERS", 2)
    answers = Answers()
    answer = paged("peak()", [CompactLine("w" * 2900)] * 6)
    for _ in range(2):
        answers.first(answer)
    answers.page("1.2")  # the most recently used answer stays
    answers.first(answer)
    answers.page("1.2")
    with pytest.raises(UsageError, match=r"cursor 2\.2: that answer has expired; ask again"):
        answers.page("2.2")


def test_text_is_bounded_except_for_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = paged("peak()", [CompactLine("w" * 2900)] * 6)
    monkeypatch.setattr(paging, "_KEPT_BYTES", answer.n_bytes - 1)
    answers = Answers()
    for number in (1, 2, 3):
        answers.first(answer)
        answers.page(f"{number}.3")
    with pytest.raises(UsageError):
        answers.page("2.2")


@pytest.mark.parametrize("width", range(1, 120, 7))
@pytest.mark.parametrize("titles", ["", "t" * 3000])
def test_full_pages_are_within_the_limit(width: int, titles: str) -> None:
    answer = paged("q" * 200, [CompactLine("w" * width, titles)] * 20_000)
    sizes = [
        len(page_text(answer, page, "123456789.123456789").encode())
        for page in range(1, len(answer.pages) + 1)
    ]
    assert max(sizes) <= MOST_BYTES
    assert sizes[0] > MOST_BYTES - 200  # the pages are full


def test_headings_on_a_page_are_bounded() -> None:
    lines = [CompactLine("ü" * 1400, "é" * 1400)] * 9
    answer = paged("q" * 200, lines)
    for page in range(1, len(answer.pages) + 1):
        assert len(page_text(answer, page, "9.9").encode()) <= MOST_BYTES
