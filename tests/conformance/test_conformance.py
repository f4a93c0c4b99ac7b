"""Accepted inputs match the oracle; for rejected ones, the error says why."""

from __future__ import annotations

import gzip
import re

import pytest

import memreplay as mr
from tests import oracle
from tests.compare import assert_like_oracle
from tests.conformance import accept, reject

# Errors about the container or a valid pickle's contents have no byte position.
WITHOUT_PLACE = r"the file is empty|truncated gzip|damaged gzip|not a memory snapshot|2 snapshots"


@pytest.mark.parametrize("name", accept.CASES)
def test_accepted_input_matches_the_oracle(name: str) -> None:
    data = accept.CASES[name]
    assert_like_oracle(data, oracle.load(data))


@pytest.mark.parametrize("name", reject.CASES)
def test_rejected_input_says_why(name: str) -> None:
    data, kind, message = reject.CASES[name]
    with pytest.raises(kind, match=message) as caught:
        mr.open(data)
    assert type(caught.value) is kind
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.hint
    if not re.match(WITHOUT_PLACE, text):
        assert caught.value.offset is not None


@pytest.mark.parametrize("name", [n for n, c in reject.CASES.items() if c.data[:1] == b"\x80"])
def test_compression_does_not_change_results(name: str) -> None:
    data, kind, message = reject.CASES[name]
    with pytest.raises(kind, match=message):
        mr.open(gzip.compress(data, 1))


def test_case_names_are_unique() -> None:
    for cases, modules in (
        (accept.CASES, (accept.files, accept.opcodes, accept.shapes)),
        (reject.CASES, (reject.machine, reject.others, reject.shapes)),
    ):
        assert len(cases) == sum(len(module.CASES) for module in modules)
