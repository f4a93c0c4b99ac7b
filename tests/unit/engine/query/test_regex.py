"""regex: the engine finds the same expressions in a text as Python's `re`."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.query._regex import NONE_FOUND, NOT_USED, Regexes
from tests import build
from tests.build import SnapshotBuilder

# One letter or set.
LETTERS = ["a", "B", "k", "_", "1", ":", "/", r"\.", r"\\", "-", " ", "\n"]
SETS = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".", "[ab]", "[^a/]", "[a-cX]", r"[\w.<>]"]
SETS += ["[^\\d\n]", "[A-Z_]", r"[^\W_]", r"[/\\]", "[0-1]"]
REPEATS = ["?", "*", "+", "{2}", "{0,2}", "{1,3}", "{0}"]
POSITIONS = ["^", "$", r"\b", r"\Z", "(?<!1)", "(?<!_:)"]
GROUPS = ["(?:{})", "(?i:{})", "(?!{})", "(?:{})?", "(?i:{})?"]
TEXTS = st.text("aAbBkK_1:/.\\- \n\x1c<(", max_size=12)


def otherwise(text: str) -> int:
    raise AssertionError(text)


def expressions() -> st.SearchStrategy[str]:
    one = st.sampled_from(LETTERS + SETS)
    repeated = st.builds(str.__add__, one, st.sampled_from(REPEATS))
    leaf = st.one_of(one, repeated, st.sampled_from(POSITIONS), st.just(""))

    def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.lists(inner, max_size=4).map("".join),
            st.lists(inner, min_size=1, max_size=4).map("|".join).map("(?:{})".format),
            st.builds(str.format, st.sampled_from(GROUPS), inner),
        )

    several = st.lists(st.recursive(leaf, joined, max_leaves=8), min_size=1, max_size=3)
    return several.map("|".join)


def bits_of(patterns: list[str], text: str) -> int:
    """Return the oracle's result."""
    return sum(1 << i for i, one in enumerate(patterns) if re.search(one, text))


@given(st.lists(expressions(), min_size=1, max_size=3), st.lists(TEXTS, max_size=8))
@example(["(?:a|b)c", "ab?", "a|"], ["b", "bc", "ac", "a", ""])
@example([r"^a|b$", r"(?:^|/)a$", r"(?:^a|^b)c"], ["a", "xa", "b\n", "/a", "x\nb", "bc", "xbc"])
@example([r"a$|\d{0,2}\Z", r"(?:a|b:?)$", r"a?k*$|\w\b$"], ["a\n", "\n", "b:", "k", "1a", ""])
@example(["(?i:k[^K])", r"(?i:[^\d])"], ["k", "KK", "Ka", "1"])
def test_engine_finds_what_re_finds(patterns: list[str], texts: list[str]) -> None:
    regexes = Regexes([(1 << i, one) for i, one in enumerate(patterns)], otherwise)
    for text in texts:
        assert regexes.search(text) == bits_of(patterns, text)


@given(st.data())
def test_engine_finds_texts_made_from_the_expression(data: st.DataObject) -> None:
    pattern = data.draw(expressions())
    try:
        compiled = re.compile(pattern, re.ASCII)
    except re.error:
        return
    try:
        text = data.draw(st.from_regex(compiled))
    except NotImplementedError:  # hypothesis doesn't know `(?!)`, which never matches
        return
    if text.isascii():
        assert Regexes([(1, pattern)], otherwise).search(text) == bits_of([pattern], text)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 6]), expressions()), max_size=3), TEXTS)
def test_result_has_the_bits_of_all_expressions_that_match(
    patterns: list[tuple[int, str]], text: str
) -> None:
    expected = 0
    for bits, pattern in patterns:
        expected |= bits if re.search(pattern, text) else 0
    assert Regexes(patterns, otherwise).search(text) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a)", "(?P<n>a)", "(?=a)", "(?<=a)", "(?#a)", "(?i)a", "(?-i:a)", "(?>a)", r"(a)\1"),
        *("(?<!a*)", "(?<!(?:a))", "(?i:(?<!a))", "(?<!a", "(?:a", "a)", "(", ")", "(?", "(?:"),
        *("*", "a**", "a+?", "a*+", "a{", "a{1", "a{1,", "a{1,}", "a{,2}", "a{2,1}", "a{70000}"),
        *("^*", "$+", r"\b?", "(?:ab)*", "(?:ab)+", "(?:ab){2}", "}", "]", "[", "[a", "[]a]"),
        *("[[a]", "[a-]", "[a-b-c]", r"[a-\d]", r"[\d-a]", "[b-a]", "[a&&b]", "[a~b]", "[a|b]"),
        *("\\", r"\q", r"\1", r"\x41", r"\n", r"\B", r"\A", r"[\b]", "é", "[é]", "a" * 1001),
    ],
)
def test_other_syntax_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="syntax"):
        Regexes([(1, pattern)], otherwise)


def test_up_to_64_alternatives_can_be_searched_at_once() -> None:
    patterns = [(1 << i, f"x{i:02}") for i in range(64)]
    regexes = Regexes(patterns, otherwise)
    assert regexes.search("x63 x00") == 1 << 63 | 1
    assert Regexes([], otherwise).search("a") == 0
    with pytest.raises(ValueError, match="too many"):
        Regexes([*patterns, (1, "a")], otherwise)
    with pytest.raises(ValueError, match="too many"):
        Regexes([(1, "|".join("a" * 65))], otherwise)


def test_text_that_is_not_ascii_goes_to_the_other_function() -> None:
    asked: list[str] = []

    def other(text: str) -> int:
        asked.append(text)
        return 4

    regexes = Regexes([(1, "a")], other)
    assert regexes.search("aé") == 4
    assert regexes.search("a\udc80") == 4
    assert regexes.search("a\0") == 1
    assert asked == ["aé", "a\udc80"]


NAMES = ["f", "g", "é", ""]
FILES = ["/r/m.py", "C:\\r\\m.py", "\\", "é/m.py", ""]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(FILES)), max_size=12))
def test_frames_and_names_are_searched(frames: list[tuple[str, str]]) -> None:
    patterns = [r"/r/m\.py", "f$", "^/"]
    builder = SnapshotBuilder()
    for line, (function, file) in enumerate(frames):
        builder.alloc((line + 1) << 20, 1, frames=[(function, file, line % 3)])
    snap = mr.open(build.dump(builder.build()))
    native = snap.native

    def other(text: str) -> int:
        assert not text.isascii()
        return bits_of(patterns, text)

    regexes = Regexes([(1 << i, one) for i, one in enumerate(patterns)], other)
    found = memoryview(regexes.of_frames(native)).tolist()
    places = [snap.frame(i) for i in range(native.n_frames)]
    assert found == [bits_of(patterns, f"{one.file}:{one.function}") for one in places]

    def lowest(text: str) -> int:
        bits = bits_of(patterns, text)
        return (bits & -bits).bit_length() - 1 if bits else NONE_FOUND

    files, functions = native.frame_strings()
    strings = [native.string(i) for i in range(native.n_strings)]
    assert list(regexes.of_names(native, True)) == [
        lowest(text) if i in functions else NOT_USED for i, text in enumerate(strings)
    ]
    assert list(regexes.of_names(native, False)) == [
        lowest(text.replace("\\", "/")) if i in files else NOT_USED
        for i, text in enumerate(strings)
    ]


def test_bounded_repetitions_take_linear_time() -> None:
    regexes = Regexes(
        [(1, r"a\w{0,64}b"), (2, r":(?:\w+\.)?f$"), (4, r"a(?!.{0,512}\bb$)")], otherwise
    )
    start = time.process_time()
    for word in ("a", "a:", ":a.", "ab", "_.:"):
        regexes.search(word * 100_000)
    assert time.process_time() - start < 5
