"""alike: groups of similar ranks match those of a simple loop."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.comparing.similarity import WITHIN, Likeness, outlying, significant_groups

CODE = st.sampled_from(["a", "b", "c", "d"])
HELD = st.dictionaries(CODE, st.integers(0, 40).map(lambda n: n * 25), max_size=4)
RANKS = st.lists(st.tuples(HELD, st.integers(0, 100)), max_size=12)


def apart(one: dict[str, int], other: dict[str, int]) -> float:
    """Return the difference between two ranks, relative to the larger peak."""
    names = {*one, *other}
    elsewhere = sum(abs(one.get(name, 0) - other.get(name, 0)) for name in names)
    return elsewhere / max(sum(one.values()), sum(other.values()), 1)


@given(ranks=RANKS)
def test_first_unassigned_rank_starts_a_group_of_similar_ranks(
    ranks: list[tuple[dict[str, int], int]],
) -> None:
    whole = [held | {"rest": rest} for held, rest in ranks]
    peaks = [sum(one.values()) for one in whole]
    left, wanted = list(range(len(ranks))), []
    while left:
        near = [at for at in left if at == left[0] or apart(whole[left[0]], whole[at]) <= WITHIN]
        wanted.append(tuple(near))
        left = [at for at in left if at not in near]
    wanted.sort(key=lambda one: (-len(one), one))
    likeness = Likeness([held for held, _ in ranks], peaks)
    found = likeness.groups()
    assert [one.members for one in found] == wanted
    for one in found:
        some = sorted(peaks[at] for at in one.members)
        assert one.typical in one.members
        assert peaks[one.typical] == some[(len(some) - 1) // 2]


@given(ranks=RANKS.filter(len))
def test_nearest_group_has_the_most_similar_typical_rank(
    ranks: list[tuple[dict[str, int], int]],
) -> None:
    whole = [held | {"rest": rest} for held, rest in ranks]
    likeness = Likeness([held for held, _ in ranks], [sum(one.values()) for one in whole])
    groups = likeness.groups()
    for at in range(len(ranks)):
        found = likeness.nearest(at, groups)
        least = min(apart(whole[at], whole[one.typical]) for one in groups)
        assert apart(whole[at], whole[found.typical]) == pytest.approx(least)


@pytest.mark.parametrize(
    "size, ranks, counts",
    [
        (1, 3, False),
        (2, 8, True),
        (2, 200, True),
        (2, 201, False),
        (10, 1000, True),
        (9, 1000, False),
    ],
)
def test_small_groups_are_not_significant(size: int, ranks: int, counts: bool) -> None:
    groups = Likeness([{}] * size, [100] * size).groups()
    assert bool(significant_groups(groups, ranks)) == counts


@given(peaks=st.lists(st.integers(0, 2000), max_size=20))
def test_outliers_match_the_definition(peaks: list[int]) -> None:
    found = outlying(peaks)
    if len(peaks) < 3:
        assert found == []
        return
    middle = median(peaks)
    usual = 1.4826 * median(abs(one - middle) for one in peaks)
    assert found == [
        at
        for at, one in enumerate(peaks)
        if abs(one - middle) > 3.5 * usual and abs(one - middle) > WITHIN * max(middle, 1)
    ]


def test_no_ranks_form_no_groups() -> None:
    assert Likeness([], []).groups() == []
    assert outlying([]) == []


def test_ranks_with_nothing_in_common_form_small_groups() -> None:
    """Thousands of such ranks mustn't take an hour. Some call sites share a column, but few ranks
    share one with other ranks.
    """
    likeness = Likeness([{f"code {at}": 100} for at in range(2000)], [100] * 2000)
    sizes = [len(one.members) for one in likeness.groups()]
    assert sum(sizes) == 2000
    assert max(sizes) <= 24
