"""patterns: regular expressions from users, and the frames that they match."""

from __future__ import annotations

import re
import sys
import time
import warnings

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.code.patterns import bits_of_frames, compiled
from memreplay.errors import UsageError
from tests import build
from tests.build import SnapshotBuilder

NO_PATTERNS = ["(", "a{99999999999}", 3000 * "(" + 3000 * ")", "*", "(?P<1>a)"]
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
    found = bits_of_frames(snap, [(bit, re.compile(text)) for bit, text in patterns])
    want = {
        ("f", "/r/m.py"): 5,
        ("g", "/r/m.py"): 4,
        ("f", "/r/o.py"): 5,
        ("g", ""): 8,
        ("", ""): 0,
    }
    places = [snap.frame(i) for i in range(snap.native.n_frames)]
    assert len(places) == 6  # including the placeholder that isn't a frame
    assert found.tolist() == [want[place.function, place.file] for place in places]
    assert bits_of_frames(snap, []).tolist() == [0] * 6


@pytest.mark.parametrize("end", ["", "!", ":"])
@pytest.mark.parametrize(
    "word", ["attention", "collate", "optim", "_tensor_", "mem_eff", "Backward1", "a.", "forward"]
)
def test_default_patterns_take_linear_time_on_any_name(word: str, end: str) -> None:
    name = ":" + word * (100_000 // len(word)) + end
    patterns = [re.compile(rule.frames) for rule in DEFAULT_RULES if rule.frames]
    start = time.process_time()
    for pattern in patterns:
        pattern.search(name)
    assert time.process_time() - start < 5
