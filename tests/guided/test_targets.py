"""The inputs that are kept are judged again, in whatever build this is."""

from __future__ import annotations

import pytest

from tests.guided import corpus
from tests.guided.targets import TARGETS

# All of these would take a minute: every so-manieth stands for the rest.
STEP = {"read": 1, "text": 1, "write": 2, "report": 8, "everything": 4}


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs(target: str) -> None:
    inputs = corpus.kept(target)
    assert len(inputs) > 100
    went_on = [TARGETS[target](data) for data in inputs[:: STEP[target]]]
    assert sum(went_on) >= 10, "all are refused: of what comes behind reading they say little"


def test_each_target_refuses_what_is_nothing() -> None:
    assert not any(judge(b"") for judge in TARGETS.values())
