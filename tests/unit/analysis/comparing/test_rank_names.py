"""Finding the rank in file names that people choose."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.comparing.rank_names import (
    explicit_ranks,
    family_of,
    rank_of,
    ranks_of,
)
from memreplay.errors import UsageError
from memreplay.io.names import natural, snapshot_names

CASES = {
    "rank": (["rank0.pkl", "rank1.pkl"], [0, 1]),
    "one file": (["rank12.pkl"], [12]),
    "every spelling": (
        ["rank0.pkl", "rank_12.pickle.gz", "snapshot-rank3.pkl.zst", "Rank-07.PKL", "a.rank.5.pkl"],
        [0, 12, 3, 7, 5],
    ),
    "other numbers": (["host_3_rank7_1700.pickle", "host_4_rank8_1699.pickle"], [7, 8]),
    "the number that differs": (["memory_snapshot_0.pickle", "memory_snapshot_1.pickle"], [0, 1]),
    "a number alone": (["0.pkl", "1.pkl", "2.pkl"], [0, 1, 2]),
    "one file, one number": (["memory_snapshot_0.pickle"], [0]),
    "one file in a numbered folder": (["iteration_10/0.pkl"], [0]),
    "a letter": (["run.r0.pkl", "run.r1.pkl"], [0, 1]),
    "sizes beside": (["ctx256_rank_0.pkl", "ctx512_rank_1.pkl"], [0, 1]),
    "between dots": (["ctx256.rank3.pkl", "ctx512.rank7.pkl"], [3, 7]),
    "a step that is the same": (["step_0/0.pkl", "step_0/1.pkl"], [0, 1]),
    "lora beside": (["lora_rank8_0.pkl", "lora_rank8_1.pkl"], [0, 1]),
    "a number that does not differ": (["h100_0.pkl", "h100_1.pkl"], [0, 1]),
    "nested": (
        ["iteration_10/rank0_memory_snapshot.pickle", "iteration_10/rank1_memory_snapshot.pickle"],
        [0, 1],
    ),
    "a folder a rank": (["rank0/snapshot.pickle", "rank1/snapshot.pickle"], [0, 1]),
    "a numbered folder a rank": (["0/step_10.pickle", "1/step_10.pickle"], [0, 1]),
    "its name before its folder's": (["lora_rank8/rank0.pkl", "lora_rank8/rank1.pkl"], [0, 1]),
    "workers": (["worker0.host.pkl", "worker1.other.pkl"], [0, 1]),
    "local ranks beside": (["rank8_local_rank0.pkl", "rank9_local_rank1.pkl"], [8, 9]),
    "local ranks alone": (["local_rank0.pkl", "local_rank1.pkl"], [0, 1]),
    "a rank that does not differ": (["lora_rank8_rank0.pkl", "lora_rank8_rank8.pkl"], [0, 8]),
    "said twice": (["rank0/rank0.pkl", "rank1_rank1.pkl"], [0, 1]),
    "the number twice beside another": (["7_0_of_0.pkl", "7_1_of_1.pkl"], [0, 1]),
    "a form's number": (["a.0.pkl.bz2", "a.1.pkl"], [0, 1]),
    "a gap": (["rank5.pkl", "rank63.pkl"], [5, 63]),
}


@pytest.mark.parametrize("names, ranks", CASES.values(), ids=CASES)
def test_ranks_are_found_in_names(names: list[str], ranks: list[int]) -> None:
    found, unranked = ranks_of(names)
    assert found == dict(zip(ranks, names, strict=True))
    assert list(found) == sorted(ranks)
    assert unranked == ()


ERRORS = {
    "none": (
        ["snapshot.pkl"],
        "no rank in the file name snapshot.pkl; name the files rank0.pkl, rank1.pkl, …",
    ),
    "one without": (["0.pkl", "last.pkl"], "no rank in the file name last.pkl"),
    "two differ": (["1_2.pkl", "2_3.pkl"], "ambiguous rank in 1_2.pkl, 2_3.pkl"),
    "one file, two numbers": (
        ["1_2.pkl"],
        "ambiguous rank in 1_2.pkl; name the files like rank0.pkl",
    ),
    "two ranks differ": (["rank0_rank2.pkl", "rank1_rank3.pkl"], "ambiguous rank in"),
    "not as many": (["0.pkl", "1_5.pkl"], "ambiguous rank in 0.pkl, 1_5.pkl"),
    "twice": (["a_rank3.pkl", "rank03.pkl"], "two files have rank 3, a_rank3.pkl and rank03.pkl"),
    "two dumps": (
        ["iteration_10/rank0.pkl", "iteration_20/rank0.pkl"],
        "two files have rank 0, iteration_10/rank0.pkl and iteration_20/rank0.pkl",
    ),
    "sizes": (
        ["memory_ctx256_fullstep.pickle", "memory_ctx512_fullstep.pickle"],
        "and the numbers 256, 512 come after 'ctx'; name the files like rank0.pkl",
    ),
    "one size": (["medium_1024.pkl"], "and the number 1024 is not 0"),
    "sizes of lora": (["lora_rank8.pkl", "lora-rank16.pkl"], "and the numbers 8, 16 "),
    "a gap": (
        ["snapshot_0.pkl", "snapshot_2.pkl"],
        "(snapshot_0.pkl), and the numbers 0, 2 do not",
    ),
    "steps": (["step_0.pkl", "step_1.pkl"], "and the numbers 0, 1 come after 'step'"),
    "iterations": (["it/Iteration-0/a.pkl"], "no rank in the file name it/Iteration-0/a.pkl"),
    "times": (["1700000000.pkl", "1700000060.pkl"], "ambiguous rank in"),
    "the same number": (["5.pkl", "5.pickle"], "two files have rank 5"),
    "many": (
        [f"{i}_{i + 1}.pkl" for i in range(9)],
        "0_1.pkl, 1_2.pkl, 2_3.pkl, …; name the files like rank0.pkl",
    ),
    "long": (["x" * 300 + ".pkl"], f"name …{'x' * 55}.pkl; name"),
}


@pytest.mark.parametrize("names, message", ERRORS.values(), ids=ERRORS)
def test_ambiguous_names_are_an_error(names: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        ranks_of(names)
    assert message in str(error.value)


def test_names_without_a_rank_are_left_out() -> None:
    found, unranked = ranks_of(["rank0.pkl", "merged_2.pkl", "rank1.pkl"])
    assert (found, unranked) == ({0: "rank0.pkl", 1: "rank1.pkl"}, ("merged_2.pkl",))


def test_duplicate_names_keep_their_ranks() -> None:
    assert explicit_ranks(["rank1.pkl", "a.pkl", "rank1.pkl"]) == [1, None, 1]
    assert explicit_ranks(["a.pkl", "a.pkl"]) == [None, None]


def test_no_names_give_no_ranks() -> None:
    assert ranks_of([]) == ({}, ())


WORDS = st.text("abcxyz_-.", max_size=6)


@given(
    WORDS,
    WORDS,
    st.one_of(
        st.tuples(st.sets(st.integers(0, 10**9 - 1), min_size=1, max_size=20), st.just(True)),
        st.tuples(st.integers(1, 20).map(lambda n: set(range(n))), st.booleans()),
    ),
)
def test_ranks_are_found_in_names_of_any_template(
    before: str, after: str, asked: tuple[set[int], bool]
) -> None:
    ranks, said = asked
    names = [f"{before}{'rank' if said else ''}{rank}{after}.pkl" for rank in ranks]
    assert ranks_of(names)[0] == dict(zip(sorted(ranks), sorted(names, key=natural), strict=True))


@given(WORDS, WORDS, st.sets(st.integers(0, 10**9 - 1), min_size=1, max_size=9))
def test_unlabelled_numbers_must_count_from_0(before: str, after: str, numbers: set[int]) -> None:
    names = [f"{before}{number}{after}.pkl" for number in numbers]
    if numbers != set(range(len(numbers))):
        with pytest.raises(UsageError, match=r"like rank0\.pkl"):
            ranks_of(names)


@given(st.lists(st.text(max_size=30), unique=True, max_size=8))
def test_any_names_give_ranks_or_a_clear_error(names: list[str]) -> None:
    with suppress(UsageError):
        found, unranked = ranks_of(snapshot_names(names))
        assert sorted([*found.values(), *unranked]) == sorted(snapshot_names(names))
        assert all(0 <= rank < 10**9 for rank in found)


@pytest.mark.parametrize(
    "name, rank, family",
    [
        ("snap.pkl", None, "snap"),
        ("snap.step-100.pickle.bz2", None, "snap.step-#"),
        ("snap.step-100.rank12.pickle", 12, "snap.step-#.rank12"),
        ("iteration_10/rank0_memory.pickle", 0, "iteration_#/rank0_memory"),
        ("rank3/snap_20.pkl", 3, "rank3/snap_#"),
        ("local_rank3_rank12.pkl", 12, "local_rank3_rank12"),
        ("rank3_of_rank8.pkl", None, "rank3_of_rank8"),
        ("gpu1/snap_7.json.gz", None, "gpu1/snap_#"),
        ("dp2-tp1.pkl", None, "dp2-tp1"),
        ("warp2.pkl", None, "warp#"),
        ("lora_rank8_1.pkl", None, "lora_rank#_#"),
        ("7.pkl", None, "#"),
        ("rank99999999999.pkl", None, "rank99999999999"),
    ],
)
def test_family_is_the_name_without_other_numbers(name: str, rank: int | None, family: str) -> None:
    assert (rank_of(name), family_of(name)) == (rank, family)
