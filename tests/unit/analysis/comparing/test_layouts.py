"""layouts: what snapshots' names tell, each as its trainer writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.comparing.layouts import LAYOUTS, moment_of, rank_beside, stems_of, told_by
from memreplay.analysis.comparing.rank_names import family_of, rank_of, ranks_of, ranks_said
from memreplay.io.names import bare

END = ("step", (1 << 63, 0))
NAMES = {
    "iteration_10/rank0_memory_snapshot.pickle": ("torchtitan until 2025", 0, ("step", (10, 0))),
    "memory_snapshot/iteration_11_exit/rank7_memory_snapshot.pickle": (
        "torchtitan until 2025",
        7,
        ("step", (11, 1)),
    ),
    "step_000000000010/000003_step_10.pickle": ("torchtitan", 3, ("step", (10, 0))),
    "000003_step_10.pickle": ("torchtitan", 3, ("step", (10, 0))),
    "step_000000000010_exit/000012_step_10.pickle": ("torchtitan", 12, ("step", (10, 1))),
    "step_000000000010/replica_1/000012_step_10.pickle": ("torchtitan", 12, ("step", (10, 0))),
    "step12/torch_memory_rank3_pid4242.pickle": ("verl", 3, ("step", (12, 0))),
    "step12/post_update_step12_rank3_pid4242.pickle": ("verl", 3, ("step", (12, 0))),
    "steps12-14/torch_memory_rank3_pid4242.pickle": ("verl", 3, ("step", (14, 0))),
    "20260725-1230/periodic_rank3_pid4242.pickle": (
        "verl, without a step",
        3,
        ("time", (20260725123000000000,)),
    ),
    "oom_20260725-123001-000002/torch_memory_oom_rank3_pid4242.pickle": (
        "verl, out of memory",
        3,
        ("time", (20260725123001000002,)),
    ),
    "memory_snapshot-rank3_iter20.pickle": ("NeMo", 3, ("step", (20, 0))),
    "memory_snapshot-rank3.pickle": ("NeMo, at the end", 3, END),
    "snapshot_stop_step_rank3.pickle": ("lmms-engine", 3, ("step", (-1, 0))),
    "snapshot_train_end_rank3.pickle": ("lmms-engine, at the end", 3, END),
    "oom_rank3.pickle": ("lmms-engine, out of memory", 3, None),
    "oom_rank-3_snapshot.pickle": ("Megatron-LM, out of memory", 3, None),
    "snapshot_oom_rank_3.pickle": ("Megatron-LM and -Bridge, out of memory", 3, None),
    "memory_trace_oom_rank-3.pickle": ("Megatron-LM and -Bridge, out of memory", 3, None),
    "snapshot_rank-3.pickle": ("Megatron-LM", 3, None),
    "memory_snapshot_time1760000000.1234567_rank3_snapshot.pickle": (
        "slime and miles",
        3,
        ("time", (17600000001234567000,)),
    ),
    "memory_snapshot_time1760000000.5_rank3.pickle": (
        "slime and miles",
        3,
        ("time", (17600000005000000000,)),
    ),
    "step_10/rank_3.pickle": ("prime-rl", 3, ("step", (10, 0))),
    "step_10/snapshot_rank03_p0d3c0t0.pickle": ("AReaL", 3, ("step", (10, 0))),
    "torch_traces/rank3.10.memory_snapshot.pickle": ("Composer", 3, ("step", (10, 0))),
    "torch_traces/rank3.oom_snapshot.pickle": ("Composer, out of memory", 3, None),
    "oom_rank3/snapshot.pickle": ("TorchTNT", 3, None),
    "memory_snapshot_rank3/snapshot.pickle": ("TorchTNT", 3, None),
}


@pytest.mark.parametrize("name, want", NAMES.items(), ids=NAMES)
def test_a_name_as_its_trainer_writes_it(
    name: str, want: tuple[str, int, tuple[str, tuple[int, ...]] | None]
) -> None:
    of = next(layout.of for layout in LAYOUTS if layout.path.search(bare(name)))
    told = told_by(name)
    assert told is not None
    assert (of, told.rank, told.moment) == want
    assert rank_of(name) == told.rank
    assert told_by(f"{name}.gz") == told


def test_each_layout_has_a_name() -> None:
    assert {of for of, _, _ in NAMES.values()} == {layout.of for layout in LAYOUTS}
    assert len({layout.of for layout in LAYOUTS}) == len(LAYOUTS)


@pytest.mark.parametrize(
    "name",
    [
        "snapshot.pickle",
        "rank3.pkl",
        "snapshot_3.pickle",
        "step_10/memory_3.pickle",
        "12_step_3.pkl",
    ],
)
def test_names_of_no_layout(name: str) -> None:
    assert told_by(name) is None


@pytest.mark.parametrize(
    "name, want",
    [
        ("iteration_10/gpu0.pkl", ("step", (10, 0))),
        ("global_step_10_oom/rank0.pkl", ("step", (10, 1))),
        ("epoch2/rank0-step7.pkl", ("stepstep", (2, 0, 7, 0))),
        ("rank0.pkl", None),
        ("footstep7.pkl", None),
        (f"step{'9' * 30}.pkl", None),
    ],
)
def test_moments_by_words(name: str, want: object) -> None:
    assert moment_of(name) == want


def test_ranks_of_torchtitan_without_the_word() -> None:
    """One dump, so without its folder; the step is the same in all, and no rank."""
    names = [f"{rank:06d}_step_10.pickle" for rank in (0, 1, 3)]
    assert ranks_of(names) == (dict(zip((0, 1, 3), names, strict=True)), ())


def test_a_number_that_another_name_explains() -> None:
    """Megatron-Bridge's."""
    names = ["snapshot_0.pickle", "snapshot_1.pickle", "snapshot_oom_rank-1.pickle", "other_2.pkl"]
    assert ranks_said(names) == [0, 1, 1, None]
    assert ranks_said(names[:2]) == [None, None]
    assert rank_beside("snapshot_10.pickle", stems_of(["snapshot_oom_rank_1.pickle"])) == 10


def test_the_family_is_a_rank_whatever_the_dump() -> None:
    names = [
        "run/iteration_10/rank0_memory_snapshot.pickle",
        "run/iteration_20/rank0_memory_snapshot.pickle",
        "run/iteration_20_exit/rank0_memory_snapshot.pickle",
    ]
    assert {family_of(name) for name in names} == {"run/rank0"}
    assert family_of("other/iteration_10/rank0_memory_snapshot.pickle") == "other/rank0"


@given(st.text("rankstep_0123456789/-.oiu", max_size=40))
def test_any_name_tells_something_or_nothing(name: str) -> None:
    told = told_by(name)
    assert told is None or 0 <= told.rank < 10**9
    moment = moment_of(name)
    assert moment is None or all(isinstance(number, int) for number in moment[1])
