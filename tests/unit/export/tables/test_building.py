"""Tests of export/tables/building.py: tables are built by name, with rules and labels."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import Rule
from memreplay.export.tables import table
from tests import build
from tests.build import SnapshotBuilder


@pytest.fixture
def snap() -> mr.Snapshot:
    frames = [("forward", "/a/model.py", 3)]
    builder = SnapshotBuilder().alloc(0x1000, 64, frames=frames).alloc(0x2000, 128)
    return mr.open(build.dump(builder.build()))


def test_rules_set_the_category(snap: mr.Snapshot) -> None:
    rules = (Rule("mine", frames=r"model\.py:forward"),)
    assert table(snap, "allocations", rules=rules).to_arrow()["category"].to_pylist() == [
        "mine",
        "unknown",
    ]
    assert table(snap, "allocations").to_arrow()["category"].to_pylist() == [
        "activations",
        "backward",
    ]


def test_labels_are_the_last_columns(snap: mr.Snapshot) -> None:
    made = table(snap, "usage", labels={"file": "rank0.pkl", "host": None}).to_arrow()
    made.validate(full=True)
    assert made.column_names[-2:] == ["file", "host"]
    assert made["file"].to_pylist() == ["rank0.pkl"] * 3
    assert made["host"].to_pylist() == [None] * 3


def test_label_named_like_a_column_is_renamed(snap: mr.Snapshot) -> None:
    made = table(snap, "frames", labels={"file": "rank0.pkl", "host": "a"}).to_arrow()
    assert made.column_names.count("file") == 1
    assert made.column_names[-2:] == ["snapshot_file", "host"]
    assert set(made["snapshot_file"].to_pylist()) == {"rank0.pkl"}
