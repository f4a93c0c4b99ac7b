"""default_needles: the needles declared for the default rules match computed ones."""

from __future__ import annotations

import re

from memreplay.analysis.categories.default_needles import NEEDLES
from memreplay.analysis.categories.rules import CONDITIONS, DEFAULT_RULES
from memreplay.analysis.code.needles import needles


def test_needles_match_the_condition_of_each_rule() -> None:
    found = []
    for rule in DEFAULT_RULES:
        (pattern,) = (text for key in CONDITIONS if (text := getattr(rule, key)) is not None)
        found.append(needles(re.compile(pattern)))
    assert tuple(found) == NEEDLES
