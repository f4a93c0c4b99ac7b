"""layouts: parsing snapshot names as each trainer writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.comparing.layouts import (
    LAYOUTS,
    moment_of,
    names_a_moment,
    parsed_by_layout,
    process_of,
    rank_by_siblings,
    stems_of,
)
from memreplay.analysis.comparing.rank_names import explicit_ranks, family_of, rank_of, ranks_of
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
def test_names_of_known_trainers_are_parsed(
    name: str, want: tuple[str, int, tuple[str, tuple[int, ...]] | None]
) -> None:
    of = next(layout.of for layout in LAYOUTS if layout.path.search(bare(name)))
    told = parsed_by_layout(name)
    assert told is not None
    assert (of, told.rank, told.moment) == want
    assert rank_of(name) == told.rank
    assert parsed_by_layout(f"{name}.gz") == told


def test_every_layout_has_a_name() -> None:
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
def test_other_names_match_no_layout(name: str) -> None:
    assert parsed_by_layout(name) is None


@pytest.mark.parametrize(
    "name, want",
    [
        ("iteration_10/gpu0.pkl", ("step", (10, 0))),
        ("global_step_10_oom/rank0.pkl", ("step", (10, 1))),
        ("epoch2/rank0-step7.pkl", ("stepstep", (2, 0, 7, 0))),
        ("rank0.pkl", None),
        ("footstep7.pkl", None),
        (f"step{'9' * 30}.pkl", None),
        ("run/snap.window-000012.pickle.gz", ("window", (12,))),
        ("snap.rank3.window-1000000-oom.pickle", ("window", (1_000_000,))),
        ("window-000012.pickle", None),
        ("snap.window-12.pickle", None),
    ],
)
def test_step_or_window_is_found_by_keyword(name: str, want: object) -> None:
    assert moment_of(name) == want


def test_windows_of_one_recording_belong_together() -> None:
    names = ["a/snap.window-000012-peak.pickle", "a/snap.window-000013.pickle.gz"]
    assert all(map(names_a_moment, names))
    added = ("oom", "oom-1", "signal", "now", "step-100", "window-000014-oom")
    names += [f"a/snap.{more}.pickle" for more in added]
    assert {process_of(name) for name in names} == {"a/snap"}
    assert process_of("a/snap.rank3.window-000012.pickle") == "a/snap.rank3"
    assert process_of("a/snap.epoch-2.step-3.pickle") == process_of("a/snap.epoch-3.step-1.pickle")
    assert process_of("a/snap.pickle") is process_of("a/boom.pickle") is None


def test_torchtitan_ranks_are_found_without_the_word_rank() -> None:
    """With a single dump, the folder isn't part of the names. The step is the same in all names, so
    it isn't the rank.
    """
    names = [f"{rank:06d}_step_10.pickle" for rank in (0, 1, 3)]
    assert ranks_of(names) == (dict(zip((0, 1, 3), names, strict=True)), ())


def test_number_is_a_rank_if_another_file_says_so() -> None:
    """Megatron-Bridge uses these names."""
    names = ["snapshot_0.pickle", "snapshot_1.pickle", "snapshot_oom_rank-1.pickle", "other_2.pkl"]
    assert explicit_ranks(names) == [0, 1, 1, None]
    assert explicit_ranks(names[:2]) == [None, None]
    assert rank_by_siblings("snapshot_10.pickle", stems_of(["snapshot_oom_rank_1.pickle"])) == 10


def test_all_dumps_of_a_rank_are_one_family() -> None:
    names = [
        "run/iteration_10/rank0_memory_snapshot.pickle",
        "run/iteration_20/rank0_memory_snapshot.pickle",
        "run/iteration_20_exit/rank0_memory_snapshot.pickle",
    ]
    assert {family_of(name) for name in names} == {"run/rank0"}
    assert family_of("other/iteration_10/rank0_memory_snapshot.pickle") == "other/rank0"


@given(st.text("rankstep_0123456789/-.oiu", max_size=40))
def test_any_name_is_classified_or_unknown(name: str) -> None:
    told = parsed_by_layout(name)
    assert told is None or 0 <= told.rank < 10**9
    moment = moment_of(name)
    assert moment is None or all(isinstance(number, int) for number in moment[1])
