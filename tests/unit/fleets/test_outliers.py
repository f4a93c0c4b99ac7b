"""Tests of fleets/outliers.py: outliers are found without the rest of a fleet's report."""

from __future__ import annotations

import memreplay as mr
from memreplay.fleets.outliers import Member, alike, holder_changes, outliers
from memreplay.fleets.result import HolderChange
from memreplay.fleets.row import member_of
from tests.conftest import ROOT


def test_members_give_the_outliers_of_the_report() -> None:
    for name in ("fsdp_odd_ranks", "fsdp_ranks"):
        folder = ROOT / "examples" / name
        files = sorted(folder.iterdir())
        found = [member_of(rank, mr.open(file), None) for rank, file in enumerate(files)]
        members = [one for one in found if one is not None]
        assert len(members) == len(files)
        brief = outliers(members, alike(members))
        whole = mr.fleet(str(folder)).outliers
        assert brief
        assert [one.rank for one in brief] == [one.rank for one in whole]
        assert [one.typical_rank for one in brief] == [one.typical_rank for one in whole]
        assert [one.change_bytes for one in brief] == [one.change_bytes for one in whole]
        assert all(one.rows == () for one in brief)


def test_no_members_have_no_outliers() -> None:
    assert outliers([], alike([])) == ()
    one = Member(0, "a.pkl", 0, 100, {"f": 100})
    assert outliers([one], alike([one])) == ()


def test_changes_of_holders_are_sorted_by_size() -> None:
    found = holder_changes({"a": 5, "b": 7, "c": 1}, {"a": 5, "b": 1, "d": 9})
    assert found == (HolderChange("d", 0, 9), HolderChange("b", 7, 1), HolderChange("c", 1, 0))
