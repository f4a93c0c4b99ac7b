"""Check the saved inputs again, with any build."""

from __future__ import annotations

import pytest

from tests.guided import corpus
from tests.guided.targets import TARGETS

# Checking all saved inputs would take a minute, so check every n-th.
STEP = {"read": 1, "text": 1, "write": 2, "report": 8, "everything": 4}


@pytest.mark.parametrize("target", TARGETS)
def test_saved_inputs_pass_and_some_can_be_read(target: str) -> None:
    inputs = corpus.kept(target)
    assert len(inputs) > 100
    went_on = [TARGETS[target](data) for data in inputs[:: STEP[target]]]
    assert sum(went_on) >= 10, "all are refused: of what comes behind reading they say little"


def test_every_target_rejects_garbage() -> None:
    assert not any(judge(b"") for judge in TARGETS.values())
