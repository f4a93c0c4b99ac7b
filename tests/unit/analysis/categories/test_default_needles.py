"""default_needles: what is written down is what is found."""

from __future__ import annotations

import re

from memreplay.analysis.categories.default_needles import NEEDLES
from memreplay.analysis.categories.rules import CONDITIONS, DEFAULT_RULES
from memreplay.analysis.code.needles import needles


def test_each_rule_has_the_needles_of_its_one_condition() -> None:
    found = []
    for rule in DEFAULT_RULES:
        (pattern,) = (text for key in CONDITIONS if (text := getattr(rule, key)) is not None)
        found.append(needles(re.compile(pattern)))
    assert tuple(found) == NEEDLES
