"""Tests of the summary's lines about the run, which a file may describe in any way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.summary.text import summary_document
from memreplay.render.plain import render_plain
from memreplay.snapshot.recorded_run import RecordedRun
from tests import build
from tests.build import SnapshotBuilder

OWN = {
    "version": 1,
    "recorder": "record",
    "torch": "2.9.1",
    "python": "3.12.1",
    "host": "node7",
    "cards": [{"name": "H100", "total_bytes": 80 << 30}] * 8,
    "rank": 3,
    "world_size": 8,
}


def summary(own: Any) -> mr.Snapshot:
    return mr.open(build.dump({**SnapshotBuilder().alloc(4096, 512).build(), "memreplay": own}))


def test_run_is_described() -> None:
    found = mr.summary(summary(OWN))
    assert found.recorded == RecordedRun(
        recorder="record",
        torch="2.9.1",
        python="3.12.1",
        host="node7",
        card_names=("H100",) * 8,
        rank=3,
        world_size=8,
        has_categories=False,
    )
    text = render_plain(summary_document(found), width=160)
    assert (
        "recorded by  memreplay record, without categories; PyTorch 2.9.1, 8 x H100, rank 3 of 8,"
        " on node7\n"
    ) in text


@pytest.mark.parametrize("own", [{}, [], "record", {"recorder": 3}, {"recorder": ""}])
def test_unknown_run_is_not_described(own: Any) -> None:
    found = mr.summary(summary(own))
    assert found.recorded is None
    assert "recorded by" not in render_plain(summary_document(found), width=100)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.fixed_dictionaries(dict.fromkeys(OWN, ANYTHING)), st.text(min_size=1))
def test_arbitrary_values_are_escaped(own: dict[str, Any], recorder: str) -> None:
    found = mr.summary(summary({**own, "recorder": recorder}))
    assert found.recorded is not None
    text = render_plain(summary_document(found), width=100)
    assert not [one for one in text if one < " " and one != "\n"]
