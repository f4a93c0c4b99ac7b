"""dumps: choosing which file of a rank is read, and ordering its files in time."""

from __future__ import annotations

import random

import pytest

from memreplay.analysis.comparing.dumps import EACH, dump_of, one_dump, without_redundant_pages
from memreplay.errors import UsageError
from memreplay.io.listing import Listed


def listed(*names: str) -> list[Listed]:
    return [Listed(name=name, path=f"/run/{name}", size=1, changed="") for name in names]


def left(names: list[str], wanted: str | None = None, **ages: float) -> list[str]:
    def age(one: Listed) -> float | None:
        return next((at for word, at in ages.items() if word in one.name), None)

    return [one.name for one in one_dump(listed(*names), wanted, age).files]


def called(names: list[str]) -> list[list[str]]:
    """Return the names of each rank's dumps, oldest first. The list of files is shuffled."""
    shuffled = random.Random(7).sample(names, len(names))
    found = one_dump(listed(*shuffled), EACH, lambda _: None)
    assert len(found.files) == len(names)
    return sorted([dump.name for dump in history] for history in found.histories)


# torchtitan's dumps of two ranks and two iterations.
TITAN = [
    f"iteration_{step}/rank{rank}_memory_snapshot.pickle" for step in (9, 10) for rank in (0, 1)
]
# lmms-engine's dumps: rank 0 ran out of memory at the end.
LMMS = [
    "oom_rank0.pickle",
    "snapshot_train_end_rank0.pickle",
    "snapshot_train_end_rank1.pickle",
]


def test_dump_with_the_highest_number_is_the_newest() -> None:
    assert left(TITAN) == TITAN[2:]
    assert left(list(reversed(TITAN))) == list(reversed(TITAN[2:]))
    chosen = one_dump(listed(*TITAN), None, lambda _: None)
    assert chosen.names == ("iteration_9", "iteration_10")
    assert chosen.words("read") == (
        "each rank has several dumps (iteration_9, iteration_10): the newest is read; --dump NAME"
        " chooses another, --dump each all of them"
    )


def test_file_age_selects_a_dump_if_names_have_no_number() -> None:
    assert left(LMMS, oom=2.0, train_end=1.0) == [LMMS[0], LMMS[2]]
    assert left(LMMS, oom=1.0, train_end=2.0) == LMMS[1:]


@pytest.mark.parametrize("ages", [{}, {"oom": 1.0}, {"oom": 1.0, "train_end": 1.0}])
def test_dump_must_be_chosen_if_ages_are_unknown_or_equal(ages: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"oom, snapshot_train_end; choose one with --dump"):
        left(LMMS, None, **ages)


def test_ages_that_contradict_the_steps_are_ignored() -> None:
    names = ["step20/rank0.pkl", "step9/rank0.pkl", "oom/rank0.pkl"]
    ages = {name: float(age) for age, name in enumerate(names)}
    with pytest.raises(
        UsageError, match="several dumps of one rank, and the newest can't be determined:"
    ):
        left(names, None, **ages)
    ages = {name: float(age) for age, name in enumerate([names[1], names[0], names[2]])}
    assert left(names, None, **ages) == [names[2]]


@pytest.mark.parametrize(
    "names, wanted, want",
    [
        (TITAN, "iteration_9", TITAN[:2]),
        (TITAN, "iteration_1*/", TITAN[2:]),
        (LMMS, "train_end", LMMS[1:]),
        (TITAN, "rank1", [TITAN[3]]),  # only the newest dump of this rank
    ],
)
def test_dump_is_chosen_by_name(names: list[str], wanted: str, want: list[str]) -> None:
    assert left(names, wanted) == want


@pytest.mark.parametrize(
    "times", [("12_03_05", "12_03_50"), ("20260101_000510", "20260101_000600")]
)
def test_time_in_a_name_orders_dumps(times: tuple[str, str]) -> None:
    names = [f"{time}/rank{rank}.pkl" for time in times for rank in (0, 1)]
    assert one_dump(listed(*names), None, lambda _: None).names == times
    assert left(names) == names[2:]
    for time in times:
        assert left(names, time) == [name for name in names if name.startswith(time)]


@pytest.mark.parametrize("wanted", ["iteration_10", "iteration_1*/"])
def test_only_dump_is_chosen(wanted: str) -> None:
    """If there is only one dump, its folder isn't part of the file names."""
    files = [
        Listed(name=f"rank{rank}.pkl", path=f"run/iteration_10/rank{rank}.pkl", size=1, changed="")
        for rank in (0, 1)
    ]
    assert one_dump(files, wanted, lambda _: None).files == files
    with pytest.raises(UsageError, match="--dump run: no file belongs to this dump; known dumps: "):
        one_dump(files, "run", lambda _: None)


def test_unknown_dump_is_an_error() -> None:
    with pytest.raises(
        UsageError, match="--dump 3: no file belongs to this dump; known dumps: iteration_9, it"
    ):
        left(TITAN[:3], "iteration_3".removeprefix("iteration_"))


def test_one_dump_per_rank_leaves_the_list_unchanged() -> None:
    names = ["rank0.pkl", "rank1.pkl", "notes.pkl", "a.pkl"]
    assert left(names) == names
    found = one_dump(listed(*names), None, lambda _: None)
    assert (found.histories, found.names, found.words("read")) == ((), (), "")


def test_dump_may_be_chosen_by_name_or_folder() -> None:
    names = [f"step_{step:012d}/000000_step_{step}.pickle" for step in (1, 10)]
    assert left(names, "step_1") == left(names, "step_000000000001") == names[:1]


def test_partial_name_does_not_match() -> None:
    names = [f"iteration_{step}/rank0.pkl" for step in (1, 10, 11)]
    assert left(names, "iteration_1") == names[:1]
    assert left(names, "ration_1") == names[:1]
    with pytest.raises(UsageError, match=": no file belongs to this dump; known dumps:"):
        left(names[1:], "iteration_1")


def test_dump_after_running_out_of_memory_is_newer() -> None:
    """In torchtitan's dumps, rank 1 ran out of memory after it had dumped step 10."""
    names = [*TITAN, "iteration_10_exit/rank1_memory_snapshot.pickle"]
    found = one_dump(listed(*names), None, lambda _: None)
    assert [one.name for one in found.files] == [names[2], names[4]]
    assert (
        "the newest is read, iteration_10 of rank 0, iteration_10_exit of rank 1;"
        in found.words("read")
    )


def test_newest_dumps_of_different_steps_are_reported() -> None:
    found = one_dump(listed(*TITAN[:3]), None, lambda _: None)
    assert [one.name for one in found.files] == TITAN[1:3]
    assert found.different_steps == "iteration_10 of rank 0, iteration_9 of rank 1"
    assert found.words("read") == (
        "some ranks have several dumps (iteration_9, iteration_10): the newest of each is read, and"
        " these are from different steps: iteration_10 of rank 0, iteration_9 of rank 1; --dump"
        " iteration_9 chooses the newest that all have, --dump each all of them"
    )
    none_shared = [TITAN[0], TITAN[2], "iteration_8/rank1_memory_snapshot.pickle"]
    assert "--dump NAME chooses another" in one_dump(
        listed(*none_shared), None, lambda _: None
    ).words("read")


def test_dump_without_a_name_is_described_by_its_pattern() -> None:
    names = [f"{folder}rank{rank}.pkl" for folder in ("", "step_5/") for rank in (0, 1)]
    ages = {"step_5": 2.0, "rank": 1.0}
    found = one_dump(
        listed(*names), None, lambda one: next(ages[word] for word in ages if word in one.name)
    )
    assert [one.name for one in found.files] == names[2:]
    assert found.words("read").startswith("each rank has several dumps (rank*.pkl, step_5): the")
    assert left(names, "rank*.pkl") == names[:2]


def test_single_dumps_of_different_steps_are_reported() -> None:
    found = one_dump(listed(TITAN[1], TITAN[2]), None, lambda _: None)
    assert [one.name for one in found.files] == TITAN[1:3]
    assert found.words("judged") == (
        "the dumps being judged are from different steps: iteration_9 of rank 1, iteration_10 of"
        " rank 0"
    )


@pytest.mark.parametrize(
    "names",
    [
        TITAN,
        TITAN[2:],
        [*TITAN, "iteration_10_exit/rank1_memory_snapshot.pickle"],
        # slime's dumps are written at the same time, but each name has the time of its rank's own
        # clock.
        [f"memory_snapshot_time176000000{r}.5_rank{r}_snapshot.pickle" for r in (0, 1)],
        [
            "rank0.pkl",
            "rank1.pkl",
            "other_step_3.pkl",
        ],  # the last name has no rank, but the others do
    ],
)
def test_dumps_of_one_step_are_not_reported(names: list[str]) -> None:
    found = one_dump(listed(*names), None, lambda _: None)
    assert found.different_steps == ""
    assert "different" not in found.words("read")


@pytest.mark.parametrize(
    "names, out",
    [
        (["rank0.pkl", "rank0_trace_plot.html", "rank1.pkl", "rank1.html"], [1, 3]),
        (["rank1.oom_snapshot.pickle", "rank1.oom_trace_plot.html"], [1]),
        (["rank0.pkl", "rank1_trace_plot.html"], []),  # rank 1 has no snapshot
        (["snap.pickle", "snap_trace_plot.html", "other.html"], [1]),
        (["a/snap.pickle", "a/trace_plot.html", "b/trace_plot.html"], [1]),
        (["snap.pickle", "a/snap.html"], []),
        (["a_trace_plot.html", "a_segment_plot.html", "b_segment_plot.html"], [1]),
        (["rank0.json.gz", "rank0.HTM"], [1]),
        (["rank0.html", "rank1.html"], []),
    ],
)
def test_page_is_skipped_if_its_snapshot_exists(names: list[str], out: list[int]) -> None:
    want = [name for at, name in enumerate(names) if at not in out]
    assert [one.name for one in without_redundant_pages(listed(*names))] == want


@pytest.mark.parametrize("wanted, want", [("iteration_10", (7,)), ("iteration_9", ()), (EACH, ())])
def test_ranks_without_the_chosen_dump_are_listed(wanted: str, want: tuple[int, ...]) -> None:
    names = [*TITAN, "iteration_9/rank7_memory_snapshot.pickle"]
    assert one_dump(listed(*names), wanted, lambda _: None).without == want
    assert one_dump(listed(*names), None, lambda _: None).without == ()


HISTORIES = {
    "torchtitan": (
        [
            f"step_{step:012d}{late}/{rank:06d}_step_{step}.pickle"
            for rank in (0, 1)
            for step, late in ((9, ""), (10, ""), (10, "_exit"))
        ],
        [["step_9", "step_10", "step_10_exit"]] * 2,
    ),
    "verl, two tags a step": (
        [
            f"step{step}/torch_memory_rank{rank}_pid{rank}.pickle"
            for rank in (0, 1)
            for step in (9, 10)
        ],
        [["step9", "step10"]] * 2,
    ),
    "NeMo": (
        [
            f"memory_snapshot-rank{rank}{what}.pickle"
            for rank in (0, 1)
            for what in ("_iter9", "_iter10", "")
        ],
        [["memory_snapshot_iter9", "memory_snapshot_iter10", "memory_snapshot"]] * 2,
    ),
    "lmms-engine": (
        ["snapshot_train_end_rank3.pickle", "snapshot_stop_step_rank3.pickle"],
        [["snapshot_stop_step", "snapshot_train_end"]],
    ),
    "slime": (
        [f"memory_snapshot_time17600000{n}.1{'2' * n}_rank0_snapshot.pickle" for n in (10, 11)],
        [[f"memory_snapshot_time17600000{n}.1{'2' * n}_rank0_snapshot.pickle" for n in (10, 11)]],
    ),
    "prime-rl": (
        [f"step_{step}/rank_{rank}.pickle" for rank in (0, 1) for step in (9, 10)],
        [["step_9", "step_10"]] * 2,
    ),
    "Composer": (
        [f"rank0.{step}.memory_snapshot.pickle" for step in (9, 10)],
        [["9.memory_snapshot", "10.memory_snapshot"]],
    ),
    "a folder a rank": (
        [f"rank{rank}/step_{step}.pkl" for rank in (0, 1) for step in (9, 10)],
        [["step_9", "step_10"]] * 2,
    ),
    "epochs and steps": (
        [f"epoch_{e}/rank0_step_{s}.pkl" for e in (1, 2) for s in (9, 10)],
        [["epoch_1/step_9", "epoch_1/step_10", "epoch_2/step_9", "epoch_2/step_10"]],
    ),
    "one process, without a rank": (
        ["step_9.pkl", "step_10.pkl"],
        [["step_9", "step_10"]],
    ),
    "a recording's files": (
        ["snap.step-9.pickle", "snap.step-10.pickle"],
        [["snap.step-9", "snap.step-10"]],
    ),
    "two processes, without a rank": (
        [f"gpu{n}/iteration_{step}.pkl" for n in (0, 1) for step in (9, 10)],
        [["iteration_9", "iteration_10"]] * 2,
    ),
}


@pytest.mark.parametrize("names, want", HISTORIES.values(), ids=HISTORIES)
def test_dumps_of_one_rank_form_its_history(names: list[str], want: list[list[str]]) -> None:
    assert called(names) == want


def test_files_of_one_recording_are_not_ranks() -> None:
    names = [f"snap{more}.pickle" for more in (".oom", ".oom-1", ".signal", "")]
    ages = {"oom.": 1.0, "oom-1": 2.0, "signal": 3.0, "snap.pickle": 4.0}
    assert left(names, None, **ages) == ["snap.pickle"]
    assert left([*names, "other.pickle"], None, **ages, other=5.0) == [
        "snap.pickle",
        "other.pickle",
    ]


def test_dumps_of_one_step_are_ordered_by_age() -> None:
    """In verl's folders, each step has a dump from the profiler and one from the trainer."""
    names = [f"step9/{tag}_rank0_pid4.pickle" for tag in ("torch_memory", "post_update_step9")]
    assert left(names, torch_memory=1.0, post_update=2.0) == names[1:]
    assert left(names, torch_memory=2.0, post_update=1.0) == names[:1]


def test_dumps_of_two_runs_are_an_error() -> None:
    names = [f"{run}/iteration_10/rank0_memory_snapshot.pickle" for run in ("a", "b")]
    with pytest.raises(
        UsageError,
        match="the same rank and step; pass one run's folder",
    ):
        left(names, None, **{"a/": 1.0, "b/": 2.0})


def test_dumps_of_two_machines_are_both_kept() -> None:
    """Each machine numbers its ranks from 0, so neither file may be left out."""
    names = ["node0/rank0.pkl", "node1/rank0.pkl"]
    assert left(names) == names


@pytest.mark.parametrize(
    "name, want",
    [
        (TITAN[0], "iteration_9"),
        (LMMS[0], "oom"),
        ("iteration_9_exit/replica_1/rank0_memory_snapshot.pickle", "iteration_9_exit"),
        ("000003_step_10.pickle", "step_10"),
        ("20260725-1230/periodic_rank0_pid4.pickle", "20260725-1230"),
        ("run/oom_rank0/snapshot.pickle", "run/oom"),
        ("rank0.pickle", "rank*.pickle"),
        ("12_03_05/rank0.pkl", "12_03_05"),
        ("20260101_000510/rank0.pkl", "20260101_000510"),
        ("2026-01-01_00-05-00/rank0.pkl", "2026-01-01_00-05-00"),
        ("20260101_000510_rank0.pkl", "20260101_000510"),
        ("rank0_12_03_00.pkl", "12_03_00"),
        ("20260101000510/rank0.pkl", "20260101000510"),
        ("run_20260101000510/rank0.pkl", "run_20260101000510"),
        ("run_1760000000_rank0/snapshot.pkl", "run"),
        ("v_007/rank0.pkl", "v_007"),
        ("step_000000000010/000003_step_10.pickle", "step_10"),
        (
            "000003_step_000000000010.pickle",
            "step_10",
        ),  # not a time, although it has as many digits
        ("rank3_iteration_000000000.pickle", "iteration_0"),
        ("epoch_01/step_00/rank0.pkl", "epoch_1/step_0"),
        ("snap-local_rank_3.pkl", "snap"),
    ],
)
def test_dump_is_named_by_its_path_without_the_rank(name: str, want: str) -> None:
    assert dump_of(name) == want
