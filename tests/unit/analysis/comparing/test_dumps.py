"""dumps: where ranks have several files, which of them is read."""

from __future__ import annotations

import pytest

from memreplay.analysis.comparing.dumps import dump_of, one_dump
from memreplay.errors import UsageError
from memreplay.io.listing import Listed


def listed(*names: str) -> list[Listed]:
    return [Listed(name=name, path=f"/run/{name}", size=1, changed="") for name in names]


def left(names: list[str], wanted: str | None = None, **ages: float) -> list[str]:
    def age(one: Listed) -> float | None:
        return next((at for word, at in ages.items() if word in one.name), None)

    return [one.name for one in one_dump(listed(*names), wanted, age).files]


# torchtitan's, of two ranks and two iterations.
TITAN = [
    f"iteration_{step}/rank{rank}_memory_snapshot.pickle" for step in (9, 10) for rank in (0, 1)
]
# lmms-engine's: the last one of rank 0 failed.
LMMS = [
    "oom_rank0_1700000000.pickle",
    "snapshot_train_end_rank0_1700000100.pickle",
    "snapshot_train_end_rank1_1700000100.pickle",
]


def test_the_newest_by_the_numbers_in_the_names() -> None:
    assert left(TITAN) == TITAN[2:]
    assert left(list(reversed(TITAN))) == list(reversed(TITAN[2:]))
    chosen = one_dump(listed(*TITAN), None, lambda _: None)
    assert chosen.dumps == ("iteration_9", "iteration_10")


def test_the_newest_by_age() -> None:
    assert left(LMMS, oom=2.0, train_end=1.0) == [LMMS[0], LMMS[2]]
    assert left(LMMS, oom=1.0, train_end=2.0) == LMMS[1:]
    # torchtitan calls the folder of a run that ran out of memory so.
    names = [TITAN[0], "iteration_11_oom/rank0_memory_snapshot.pickle"]
    assert left(names, iteration_9=1.0, iteration_11=2.0) == names[1:]


@pytest.mark.parametrize("ages", [{}, {"oom": 1.0}, {"oom": 1.0, "train_end": 1.0}])
def test_nothing_tells_which_is_the_newest(ages: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"oom, snapshot_train_end; choose one by --dump"):
        left(LMMS, None, **ages)


@pytest.mark.parametrize(
    "names, wanted, want",
    [
        (TITAN, "iteration_9", TITAN[:2]),
        (TITAN, "iteration_1*/", TITAN[2:]),
        (LMMS, "train_end", LMMS[1:]),
        (TITAN, "rank1", [TITAN[3]]),  # and of what is left the newest
    ],
)
def test_one_is_chosen(names: list[str], wanted: str, want: list[str]) -> None:
    assert left(names, wanted) == want


@pytest.mark.parametrize("wanted", ["iteration_10", "iteration_1*/"])
def test_the_only_one_is_chosen(wanted: str) -> None:
    """Its folder is no part of the names then."""
    files = [
        Listed(name=f"rank{rank}.pkl", path=f"run/iteration_10/rank{rank}.pkl", size=1, changed="")
        for rank in (0, 1)
    ]
    assert one_dump(files, wanted, lambda _: None).files == files
    with pytest.raises(UsageError, match="--dump run: no file is of it"):
        one_dump(files, "run", lambda _: None)


def test_none_is_of_it() -> None:
    with pytest.raises(UsageError, match="--dump 3: no file is of it; there are: iteration_9, it"):
        left(TITAN[:3], "iteration_3".removeprefix("iteration_"))


def test_one_of_each_rank_stays_as_it_is() -> None:
    names = ["rank0.pkl", "rank1.pkl", "notes.pkl", "a.pkl"]
    assert left(names) == names
    assert one_dump(listed(*names), None, lambda _: None).dumps == ()


@pytest.mark.parametrize(
    "name, want",
    [
        (TITAN[0], "iteration_9"),
        (LMMS[0], "oom"),
        ("rank0.pickle", "rank0.pickle"),
        ("snap-local_rank_3.pkl", "snap"),
    ],
)
def test_what_a_dump_is_called(name: str, want: str) -> None:
    assert dump_of(name) == want
