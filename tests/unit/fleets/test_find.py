"""find: the summary over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.diff.between_ranks import difference
from memreplay.fleets.find import fleet_change
from memreplay.fleets.outliers import EXPLAINED, Explained, Pair
from memreplay.fleets.result import CardFit, HolderChange
from tests.conftest import ROOT
from tests.unit.fleets.rows import MIB, broken, pairs_of, rank, report

SAME = {"weights": 100, "activations": 50}
PEAKS = st.lists(st.integers(1, 5000), min_size=1, max_size=20)


@given(peaks=PEAKS)
def test_peaks_of_ranks_are_summarized(peaks: list[int]) -> None:
    found = report(*(rank(at, {"code": peak}) for at, peak in enumerate(peaks)))
    sizes = [peak * MIB for peak in peaks]
    assert found.peak is not None
    assert (found.peak.min_bytes, found.peak.max_bytes) == (min(sizes), max(sizes))
    assert (found.peak.min_rank, found.peak.max_rank) == (
        sizes.index(min(sizes)),
        sizes.index(max(sizes)),
    )
    assert (found.peak.median_bytes, found.peak.sum_bytes) == (int(median(sizes)), sum(sizes))
    assert list(found.worst) == sorted(range(len(peaks)), key=lambda at: (-sizes[at], at))[:20]
    assert found.reserved is not None
    assert found.reserved.max_bytes == max(sizes) + 2 * MIB
    # Each rank is in exactly one group.
    grouped = sorted(one for group in found.groups for one in group.rank_numbers)
    assert grouped == list(range(len(peaks)))
    assert all(group.typical_rank in group.rank_numbers for group in found.groups)
    assert all(
        group.min_bytes == min(sizes[at] for at in group.rank_numbers)
        and group.max_bytes == max(sizes[at] for at in group.rank_numbers)
        for group in found.groups
    )


def test_pipeline_stages_are_groups_without_outliers() -> None:
    first, last = {"embed": 400, "blocks": 100}, {"head": 300, "blocks": 100}
    found = report(*(rank(at, first if at < 4 else last) for at in range(8)))
    assert [one.rank_numbers for one in found.groups] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert found.groups[0].differs == ()
    assert found.groups[1].differs == (
        HolderChange("embed", 400 * MIB, 0),
        HolderChange("head", 0, 300 * MIB),
    )
    assert found.outliers == ()


def test_rank_unlike_all_others_is_an_outlier() -> None:
    odd = SAME | {"keep_history": 90}
    rows = [rank(at, odd if at == 3 else SAME) for at in range(6)]
    found = report(*rows)
    (one,) = found.outliers
    assert (one.rank, one.typical_rank, one.change_bytes) == (3, 2, 90 * MIB)
    assert (one.peak_bytes, one.typical_bytes) == (240 * MIB, 150 * MIB)
    assert found.groups[1].differs == (HolderChange("keep_history", 0, 90 * MIB),)
    (pair,) = pairs_of(*rows)
    assert (pair.base, pair.new) == ("rank2.pkl", "rank3.pkl")


def test_distant_values_are_outliers_without_groups() -> None:
    rows = [rank(at, {f"code {at}": 100 + at}) for at in range(7)] + [rank(7, {"other": 900})]
    found = report(*rows)
    assert [one.rank for one in found.outliers] == [7]
    assert found.outliers[0].typical_rank == 3


def test_a_few_files_are_read_again() -> None:
    odd = [rank(100 + at, {f"code {at}": 500 + at}) for at in range(EXPLAINED + 4)]
    rows = [*(rank(at, SAME) for at in range(50)), *odd]
    found = report(*rows)
    assert len(found.outliers) == len(odd)
    assert [pair.new for pair in pairs_of(*rows)] == [
        f"rank{one.rank}.pkl" for one in found.outliers[:EXPLAINED]
    ]


def test_undetermined_results_are_reported() -> None:
    rows = [rank(at, SAME if at else {"other": 900}) for at in range(4)]
    found = report(*rows, explained=Explained(error="the file is gone"))
    assert [(one.error, one.rows) for one in found.outliers] == [("the file is gone", ())]


def test_unreadable_ranks_are_counted_as_missing() -> None:
    found = report(rank(0, SAME), broken(1), rank(2, SAME), broken(None), rank(5, SAME))
    assert (found.file_count, found.read_count) == (5, 3)
    assert [one.rank for one in found.ranks] == [0, 1, 2, 5, None]
    assert found.missing_ranks == (3, 4)
    assert not found.trusted
    assert found.exactness == "exact"
    nothing = report(broken(0))
    assert (nothing.peak, nothing.curve_by, nothing.groups, nothing.worst) == (None, None, (), ())


def test_gaps_between_numbers_that_are_not_ranks_are_not_reported() -> None:
    assert report(rank(17_000, SAME), rank(18_000, SAME)).missing_ranks == ()


def test_ranks_that_ran_out_of_memory_are_listed() -> None:
    rows = [rank(at, SAME, oom_count=at == 2) for at in range(4)]
    assert report(*rows).out_of_memory == (2,)


def test_headroom_counts_ranks_with_a_known_card() -> None:
    rows = [rank(0, SAME), rank(1, SAME, total_memory_bytes=10, headroom_bytes=4)]
    found = report(*rows).headroom
    assert found is not None
    assert (found.min_bytes, found.min_rank, found.max_rank) == (4, 1, 1)
    assert report(rank(0, SAME)).headroom is None


def test_each_card_lists_the_ranks_that_do_not_fit() -> None:
    cards = [(CardFit(40, at != 1, "exact"), CardFit(24, False, "exact")) for at in range(3)]
    cards[2] = (CardFit(40, True, "estimated"), cards[2][1])
    found = report(*(rank(at, SAME, cards=one) for at, one in enumerate(cards))).cards
    told = [(one.total_memory_bytes, one.fitting, one.not_fitting, one.exactness) for one in found]
    assert told == [(40, 2, (1,), "estimated"), (24, 0, (0, 1, 2), "exact")]


def test_two_fleets_are_compared_rank_by_rank() -> None:
    base = [rank(at, {"code": 100}) for at in (0, 1, 2, 4)]
    new = [rank(at, {"code": size}) for at, size in ((0, 100), (1, 130), (2, 60), (3, 100))]
    asked: list[Pair] = []

    def explain(pairs: Sequence[Pair]) -> list[Explained]:
        asked.extend(pairs)
        return [Explained(error="words")]

    found = fleet_change(base, [*new, broken(4)], "base/", explain)
    assert [(one.rank, one.change_bytes // MIB) for one in found.ranks] == [
        (2, -40),
        (1, 30),
        (0, 0),
    ]
    assert (found.only_base, found.only_new, found.told_rank) == ((4,), (3,), 1)
    assert (asked[0].base, asked[0].new, found.error) == ("rank1.pkl", "rank1.pkl", "words")
    assert found.change is not None
    assert (found.change.min_rank, found.change.max_rank) == (2, 1)
    same = fleet_change(base, base, "base/", explain)
    assert (same.told_rank, same.rows, len(asked)) == (None, (), 1)
    nothing = fleet_change([], new, "base/", explain)
    assert (nothing.peak, nothing.change, nothing.ranks) == (None, None, ())


def test_curve_gives_minimum_median_and_maximum_over_time() -> None:
    curves = [(10, 20, 30), (20, 20, 10), (30, 10, 10, 99), (10, 40, 20)]
    rows = [rank(at, SAME, curve_by="steps", curve_bytes=one) for at, one in enumerate(curves)]
    found = report(*rows, rank(4, SAME, curve_bytes=(7,) * 64))
    assert found.curve_by == "steps"
    told = [
        (one.number, one.min_bytes, one.median_bytes, one.max_bytes, one.max_rank)
        for one in found.curve
    ]
    assert told == [(1, 10, 15, 30, 2), (2, 10, 20, 40, 3), (3, 10, 15, 30, 0)]
    assert found.imbalance == pytest.approx((30 / 15 + 40 / 20 + 30 / 15) / 3)


def test_one_estimated_rank_makes_the_fleet_estimated() -> None:
    rows = [rank(0, SAME), rank(1, SAME, exactness="estimated", trusted=False)]
    found = report(*rows)
    assert (found.exactness, found.trusted) == ("estimated", False)


def test_code_behind_the_difference_matches_diff() -> None:
    folder = ROOT / "examples" / "fsdp_ranks"
    with mr.open(folder / "rank1.pkl.gz", device=0) as base:
        device = max(mr.open(folder / "rank3.pkl.gz").devices)
        with mr.open(folder / "rank3.pkl.gz", device=device) as new:
            wanted = mr.diff(base, new, top=5).devices[0].rows
            assert difference(base, new, Selection(by="file", device=7, top=1)) == wanted
