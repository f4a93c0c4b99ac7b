"""Tests of analysis/comparing/lines.py: matches of shifted lines agree with plain Python."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.comparing.lines import MOST_PAIRS, align_files, align_lines


def aligned(base: dict[int, int | None], new: dict[int, int | None]) -> dict[int, int]:
    """Return the base line that each of a function's new lines corresponds to."""
    return {line: old for (_, line), old in align_lines({"f": base}, {"f": new}).new.items()}


def plain(*lines: int) -> dict[int, int | None]:
    return dict.fromkeys(lines)


@pytest.mark.parametrize(
    "base, new, want",
    [
        # The old version already had every line of the new one, so nothing moved.
        ((54, 55, 56), (54, 55), {54: 54, 55: 55}),
        # One line changed, and the others stayed.
        ((54, 55, 56), (54, 55, 59), {54: 54, 55: 55}),
        ((54, 55, 56, 70), (54, 55, 59, 70), {54: 54, 55: 55, 70: 70}),
        # Two lines moved together, because lines were inserted above.
        ((10, 20, 30), (10, 23, 33), {10: 10, 23: 20, 33: 30}),
        # The number of lines in between is the same, so these lines changed.
        ((10, 20, 30, 40), (10, 21, 35, 45), {10: 10, 21: 20, 35: 30, 45: 40}),
        # All lines moved.
        ((10, 20, 30), (20, 30, 40), {20: 10, 30: 20, 40: 30}),
        ((10, 20), (13, 27), {13: 10, 27: 20}),
        # Either line may have become the new one.
        ((10, 20), (33,), {}),
        ((), (33,), {}),
    ],
)
def test_lines_match_as_expected(
    base: tuple[int, ...], new: tuple[int, ...], want: dict[int, int]
) -> None:
    if want == {20: 10, 30: 20, 40: 30}:
        # Without bytes, unchanged lines match first. Bytes are better evidence.
        assert aligned(plain(*base), plain(*new)) == {20: 20, 30: 30}
        assert aligned({10: 1, 20: 2, 30: 3}, {20: 1, 30: 2, 40: 3}) == want
    else:
        assert aligned(plain(*base), plain(*new)) == want


def test_equal_bytes_identify_a_moved_line() -> None:
    assert aligned({10: 7, 20: 500}, {10: 7, 25: 500}) == {10: 10, 25: 20}
    assert aligned({10: 7, 20: 500}, {10: 7, 25: 400}) == {10: 10}
    assert aligned({10: 100, 20: 500}, {32: 490}) == {32: 20}


def test_functions_move_with_their_file() -> None:
    base = {"f": plain(10), "g": plain(30, 35), "h": plain(60)}
    new = {"f": plain(10), "g": plain(34, 39), "h": plain(64)}
    found = align_lines(base, new).new
    assert found == {("f", 10): 10, ("g", 34): 30, ("g", 39): 35, ("h", 64): 60}
    # Only the function in the middle has different lines, so it didn't move with the file.
    new = {"f": plain(10), "g": plain(31, 36), "h": plain(60)}
    assert align_lines(base, new).new == {("f", 10): 10, ("h", 60): 60}


def test_indistinguishable_lines_match_without_bytes() -> None:
    found = align_lines({"f": plain(10, 20)}, {"f": plain(33)}, sized=False)
    assert found.base == {("f", 10): 10, ("f", 20): 10}
    assert found.new == {("f", 33): 10}


lines = st.dictionaries(
    st.sampled_from("fgh"),
    st.dictionaries(st.integers(0, 40), st.none() | st.integers(0, 3), min_size=1, max_size=6),
)


@given(lines, lines)
def test_a_line_matches_only_once(
    base: dict[str, dict[int, int | None]], new: dict[str, dict[int, int | None]]
) -> None:
    found = align_lines(base, new)
    assert found.base == {}
    olds = [(function, old) for (function, _), old in found.new.items()]
    assert len(set(olds)) == len(olds)
    assert all(old in base[function] for function, old in olds)
    assert all(line in new[function] for function, line in found.new)


@given(lines, st.integers(-50, 50))
def test_file_shifted_as_a_whole_is_unchanged(
    base: dict[str, dict[int, int | None]], by: int
) -> None:
    sized = {f: {line: (n or 0) + line for line, n in of.items()} for f, of in base.items()}
    new = {f: {line + by: n for line, n in of.items()} for f, of in sized.items()}
    want = {(f, line + by): line for f, of in base.items() for line in of}
    assert align_lines(sized, new).new == want


def test_functions_with_very_many_lines_match_fast() -> None:
    many = 4 * int(MOST_PAIRS**0.5)
    base, new = plain(*range(0, 2 * many, 2)), plain(*range(0, 2 * many, 3))
    start = time.process_time()
    found = aligned(base, new)
    assert time.process_time() - start < 2
    assert found == {line: line for line in base if line in new}
    assert aligned(base, plain(*range(1, 2 * many, 2)))[1] == 0
    few = plain(*range(1, 1 << 9, 2)), plain(*range(4, 1 << 9, 3))
    start = time.process_time()
    aligned(*few)
    assert time.process_time() - start < 5


@pytest.mark.slow
def test_very_many_files_match_fast() -> None:
    def files(shift: int) -> dict[str, dict[str, dict[int, int | None]]]:
        lines = plain(*range(shift, 600 + shift, 3))
        return {f"m{i}.py": {"f": lines} for i in range(200)}

    start = time.process_time()
    found = align_files(files(0), files(4))
    assert time.process_time() - start < 10
    # Files were compared pairwise until time ran out. The rest were matched by their order.
    assert {one.compared for one in found.values()} == {True, False}
    assert all(one.new["f", 4] == 0 for one in found.values())
