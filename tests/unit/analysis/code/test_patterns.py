"""patterns: regular expressions, memreplay's own and users', and the frames that they match."""

from __future__ import annotations

import re
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.origins import CAST, EXIT, LOWER
from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.code.patterns import Patterns, compiled, regexes
from memreplay.analysis.code.plumbing import OF_FUNCTIONS, PLUMBING_FILES
from memreplay.errors import UsageError
from tests import build
from tests.build import SnapshotBuilder

NO_PATTERNS = ["(", "a{99999999999}", 3000 * "(" + 3000 * ")", "*", "(?P<1>a)", "(?a)(?u)x"]
if sys.version_info >= (3, 11):  # earlier versions of Python accept this
    NO_PATTERNS.append("a(?i)b")


@pytest.mark.parametrize("pattern", NO_PATTERNS)
def test_invalid_regular_expression_is_a_one_line_error(pattern: str) -> None:
    with pytest.raises(
        UsageError, match=r"^rule 3 is not a (usable )?regular expression: \w"
    ) as caught:
        compiled(pattern, "rule 3")
    assert "\n" not in str(caught.value)


def test_unusual_regular_expression_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        re.purge()
        assert compiled("[[a]", "x").search("[")


def test_frame_gets_the_bits_of_all_matching_patterns() -> None:
    stacks = [
        [("f", "/r/m.py", 1), ("f", "/r/m.py", 2), ("g", "/r/m.py", 2)],
        [("f", "/r/o.py", 1), ("g", "", 0)],
    ]
    builder = SnapshotBuilder()
    for i, frames in enumerate(stacks):
        builder.alloc((i + 1) << 20, 1, frames=frames)
    snap = mr.open(build.dump(builder.build()))
    patterns = [(1, r"m\.py:f$"), (4, "^/r"), (1, ":f"), (8, "^:g$")]
    of_user = [(bit, compiled(text, text)) for bit, text in patterns]
    want = {
        ("f", "/r/m.py"): 5,
        ("g", "/r/m.py"): 4,
        ("f", "/r/o.py"): 5,
        ("g", ""): 8,
        ("", ""): 0,
    }
    places = [snap.frame(i) for i in range(snap.native.n_frames)]
    assert len(places) == 6  # including the placeholder that isn't a frame
    wanted = [want[place.function, place.file] for place in places]
    for number in range(5):
        assert Patterns(patterns[:number], of_user[number:]).of_frames(snap) == wanted
        assert Patterns(patterns[:number], of_user[number:]).search("/r/m.py:f") == 5
    assert Patterns([], []).of_frames(snap) == [0] * 6


@given(
    st.lists(
        st.sampled_from(["a", "kv_cache", "ſ", "K", "İ", "é", ":", "forward", ".forward", "\0"])
    ).map("".join)
)
def test_own_expressions_match_like_re_in_any_text(text: str) -> None:
    patterns = [(1, r"(?i:kv_cache|s)"), (2, r"\w{1,3}:"), (4, r"(?:^|\.)forward$"), (1, ".")]
    expected = 0
    for bits, pattern in patterns:
        expected |= bits if re.search(pattern, text) else 0
    assert regexes(*patterns).search(text) == expected


@pytest.mark.parametrize("end", ["", "!", ":"])
@pytest.mark.parametrize(
    "word", ["attention", "collate", "optim", "_tensor_", "mem_eff", "Backward1", "a.", "forward"]
)
def test_default_patterns_take_linear_time_on_any_name(word: str, end: str) -> None:
    name = ":" + word * (100_000 // len(word)) + end
    rules = regexes(*((1, rule.frames) for rule in DEFAULT_RULES if rule.frames))
    start = time.process_time()
    rules.search(name)
    for rule in DEFAULT_RULES:
        if rule.frames:  # `re` searches texts that aren't ASCII
            re.compile(rule.frames).search(name)
    assert time.process_time() - start < 5


EXAMPLES = sorted((Path(__file__).parents[4] / "examples").rglob("*.pkl.gz"))
OWN = [rule.frames for rule in DEFAULT_RULES if rule.frames]
OWN += [CAST, EXIT, LOWER, *PLUMBING_FILES, *(pattern for _, pattern in OF_FUNCTIONS)]


def assert_like_re(snap: mr.Snapshot) -> None:
    """Search all frames of a snapshot for memreplay's own expressions."""
    frames = [snap.frame(i) for i in range(snap.native.n_frames)]
    texts = [f"{frame.file}:{frame.function}" for frame in frames]
    for pattern in OWN:
        found = memoryview(regexes((1, pattern)).of_frames(snap.native)).tolist()
        assert found == [int(re.search(pattern, text) is not None) for text in texts]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_own_expressions_match_like_re_in_every_example(file: Path) -> None:
    assert_like_re(mr.open(file))


def test_own_expressions_match_like_re_in_every_snapshot_of_the_corpus(corpus_file: Path) -> None:
    assert_like_re(mr.open(corpus_file))


@pytest.mark.parametrize("letter", ["a", "é"])
def test_many_functions_of_a_file_with_a_huge_name_take_little_time(letter: str) -> None:
    builder = SnapshotBuilder()
    path, name = f"{letter * 1_000_000}/train.py", f"forward {letter * 1_000_000}"
    for i in range(3000):
        builder.alloc(0x1000 * (i + 1), 512, frames=[(f"f{i}", path, i + 1)])
    builder.alloc(0x1000, 512, frames=[(name, path, 1)])
    snap = mr.open(build.dump(builder.build()))
    started = time.process_time()
    found = regexes((1, r"/train\.py:f"), (2, r":forward ")).of_frames(snap.native)
    assert time.process_time() - started < 1.5
    assert sorted(memoryview(found).tolist()) == [0, *[1] * 3000, 3]
