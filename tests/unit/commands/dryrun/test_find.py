"""Tests of commands/dryrun/find.py, on the snapshots and facts that processes leave behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memreplay.analysis.comparing.budgets import Budget
from memreplay.commands.dryrun.find import Run, dryrun_report
from memreplay.commands.dryrun.processes import total
from memreplay.commands.dryrun.result import DryOutside, DryrunReport
from memreplay.dryrun.cards import Card, find
from memreplay.dryrun.installing import Installer
from memreplay.dryrun.launch import Ended, Process, Setup
from memreplay.dryrun.python import Torch
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.dryrun.fake_torch import GIB, MIB

CARD = find("T4")
MEMORY = 8 * GIB
ROOM = MEMORY - CARD.context_bytes
TORCH = Torch("python", Path("torch"), "9.9", None, Installer("python"))
FUNCTIONS = (
    *("cudaFuncGetAttributes", "cudaGetErrorName", "cudnnSetStream", "cusparseSpMM_bufferSize"),
    *("cuStreamQuery", "__cudaGetKernel", "ncclGroupEnd"),
    *("cuptiGetTimestamp", "cusparseGetVersion"),
)


def statistics(reserved: int, **more: int) -> dict[str, int]:
    return {
        "allocation.all.allocated": 1,
        "reserved_bytes.all.peak": reserved,
        "allocated_bytes.all.peak": reserved // 2,
        "requested_bytes.all.peak": reserved // 4,
        "num_ooms": 0,
        "num_alloc_retries": 0,
        **more,
    }


class Left:
    """A folder with the output files of a run's processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        self.files: dict[int, str] = {}

    def process(
        self, *devices: dict[str, int], snapshot: SnapshotBuilder | None = None, **facts: Any
    ) -> str:
        """Add a process with these statistics, and return its snapshot's path."""
        pid = len(self.processes) + 1
        path = self.folder / f"{pid}.pickle"
        path.write_bytes(build.dump((snapshot or some(MIB)).build()))
        self.files[pid] = str(path)
        self.processes.append(Process(pid, path, {"statistics": devices, **facts}, "cudaFree"))
        return str(path)

    def crashed(self) -> None:
        self.processes.append(Process(99, None, {}, "cudaMalloc"))

    def report(
        self,
        status: int = 0,
        *,
        timed_out: bool = False,
        interrupted: bool = False,
        budget: Budget | None = None,
        card: Card = CARD,
    ) -> DryrunReport:
        ended = Ended(
            status, timed_out, interrupted, 1.25, TORCH, 13, FUNCTIONS, tuple(self.processes)
        )
        setup = Setup(card, MEMORY, cards=2)
        return dryrun_report(Run(("python", "x.py"), setup, ended), self.files, budget=budget)


def some(size: int, *, ooms: int = 0, devices: int = 1) -> SnapshotBuilder:
    made = SnapshotBuilder(devices)
    made.segment_alloc(1 << 30, size).alloc(1 << 30, size)
    for n in range(ooms):
        made.oom((n + 1) * GIB, device_free=MIB)
    return made.segment(1 << 30, size, blocks=[made.block(1 << 30, size)])


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


RAISED = {"type": "ValueError", "words": "why", "out_of_memory": False}
MEMORY_RAISED = {"type": "OutOfMemoryError", "words": "", "out_of_memory": True}


def test_report_has_the_numbers_of_one_process(left: Left) -> None:
    file = left.process(statistics(3 * GIB, num_alloc_retries=4), {"num_ooms": 0}, rank=5)
    made = left.report()
    assert (made.outcome, made.verdict, made.exit_code, made.seconds) == ("ended", "fits", 0, 1.25)
    assert (made.peak_bytes, made.spare_bytes) == (3 * GIB, ROOM - 3 * GIB)
    assert (made.card.total_memory_bytes, made.card.count, made.torch) == (MEMORY, 2, "9.9")
    (process,) = made.processes
    assert (process.pid, process.rank, process.file, process.last_call) == (1, 5, file, None)
    (device,) = process.devices  # the other card wasn't used
    assert (device.device, device.reserved_peak_bytes, device.allocated_peak_bytes) == (
        0,
        3 * GIB,
        3 * GIB // 2,
    )
    assert (device.requested_peak_bytes, device.oom_count, device.retries) == (3 * GIB // 4, 0, 4)
    assert made.shown == file
    assert [one.peak_bytes for one in made.peaks] == [MIB]
    assert (made.ooms, made.exact, made.error, made.budget, made.shared) == (
        (),
        True,
        None,
        None,
        False,
    )


def test_recording_is_used_if_the_program_reset_its_counters(left: Left) -> None:
    left.process(statistics(MIB), snapshot=some(64 * MIB))
    made = left.report()
    (device,) = made.processes[0].devices
    assert made.peak_bytes == 64 * MIB
    assert (device.requested_peak_bytes, device.allocated_peak_bytes) == (64 * MIB, 64 * MIB)


@pytest.mark.parametrize(
    "reserved, fits", [(ROOM, True), (ROOM + 1, False), (ROOM - 1, True), (MEMORY, False)]
)
def test_cuda_context_takes_its_share_of_the_card(left: Left, reserved: int, fits: bool) -> None:
    left.process(statistics(reserved))
    made = left.report()
    assert (made.verdict, made.spare_bytes) == (
        "fits" if fits else "does_not_fit",
        ROOM - reserved,
    )


def test_libraries_take_memory_outside_the_allocator(left: Left) -> None:
    """A training program with matrix products and cuDNN has these counts on an H200."""
    card = find("H200")
    left.process(statistics(GIB), outside=[[1, 2, 1, 2, 0, 0, 0]])
    made = left.report(card=card)
    assert made.outside_bytes == 804061184  # measured
    assert made.spare_bytes == MEMORY - GIB - 804061184
    assert made.card.outside_measured
    (device,) = made.processes[0].devices
    assert device.outside == DryOutside(554500096, 222 * MIB, 16 * MIB, 0, 0, 0)
    assert total(device.outside) == 804061184
    left.process(statistics(GIB), outside=[[1, 1, 0, 0, 1, 1, 2]])
    one, other = left.report(card=card).processes
    assert one.devices == (device,)
    assert other.devices[0].outside == DryOutside(
        554500096, 66 * MIB, 0, 98 * MIB, 8 * MIB, 1376 * MIB
    )


@pytest.mark.parametrize(
    "status, raised, ooms, outcome",
    [
        (0, None, 3, "ended"),
        (1, MEMORY_RAISED, 1, "out_of_memory"),
        (1, MEMORY_RAISED, 0, "out_of_memory"),
        (1, RAISED, 0, "failed"),
        (1, RAISED, 2, "failed"),  # continued after those
        (1, None, 1, "out_of_memory"),  # pytest exits like this
        (1, None, 0, "failed"),
        (-11, None, 0, "killed"),
        (-6, MEMORY_RAISED, 1, "out_of_memory"),
    ],
)
def test_verdict_follows_from_how_the_program_ended(
    left: Left, status: int, raised: dict[str, Any] | None, ooms: int, outcome: str
) -> None:
    left.process(statistics(GIB, num_ooms=ooms), snapshot=some(MIB, ooms=ooms), raised=raised)
    made = left.report(status)
    assert made.outcome == outcome
    verdicts = {"ended": "fits", "out_of_memory": "does_not_fit"}
    assert made.verdict == verdicts.get(outcome, "not_known")
    assert [len(one.ooms) for one in made.ooms] == (
        [1] if ooms and made.outcome != "ended" else []
    )[: outcome == "out_of_memory"]


def test_timeout_and_ctrl_c_take_precedence(left: Left) -> None:
    left.process(statistics(GIB, num_ooms=1), raised=MEMORY_RAISED)
    assert left.report(-15, timed_out=True, interrupted=True).outcome == "timed_out"
    assert left.report(-2, interrupted=True).outcome == "interrupted"
    assert left.report(0, interrupted=True).verdict == "not_known"


def test_last_failed_request_is_reported(left: Left) -> None:
    left.process(statistics(GIB, num_ooms=3), snapshot=some(MIB, ooms=3), raised=MEMORY_RAISED)
    made = left.report(1)
    (device,) = made.ooms
    assert 3 in [one.number for one in device.ooms]
    assert made.error == "OutOfMemoryError"


def test_snapshot_of_the_failed_or_highest_process_is_shown(left: Left) -> None:
    left.process(statistics(GIB))
    high = left.process(statistics(3 * GIB))
    failed = left.process(
        statistics(2 * GIB, num_ooms=1), snapshot=some(MIB, ooms=1), raised=MEMORY_RAISED
    )
    left.crashed()
    assert left.report().shown == high
    made = left.report(1)
    assert made.shown == failed
    assert made.processes[-1].file is None
    assert made.processes[-1].last_call == "cudaMalloc"


def test_programs_own_snapshot_is_shown_if_ours_has_no_events(left: Left) -> None:
    none = SnapshotBuilder()
    mine = left.folder / "mine.pickle"
    file = left.process(statistics(GIB), snapshot=none, recorded_by_itself=True, dumped=[str(mine)])
    assert left.report().shown == file  # no longer there
    mine.write_bytes(build.dump(some(7 * MIB).build()))
    made = left.report()
    assert made.shown == str(mine)
    assert [one.peak_bytes for one in made.peaks] == [7 * MIB]
    assert made.processes[0].file == file
    events = left.folder / "1.pickle"
    events.write_bytes(build.dump(some(MIB).build()))
    assert left.report().shown == file


def test_cards_are_numbered_as_in_the_machine(left: Left) -> None:
    left.process(statistics(GIB), visible="3")
    left.process(statistics(2 * GIB), visible="2,3")
    made = left.report()
    assert (made.peak_bytes, made.shared) == (2 * GIB, False)
    left.process({}, statistics(4 * GIB), visible="2,3")
    made = left.report()
    assert (made.peak_bytes, made.shared) == (5 * GIB, True)
    assert made.outside_bytes == 2 * CARD.context_bytes
    left.process(statistics(4 * GIB), visible="GPU-uuid")
    # A UUID doesn't say which card it is, so card 0 is assumed.
    assert left.report().peak_bytes == 5 * GIB


def test_cards_of_other_nodes_are_others(left: Left) -> None:
    left.process(statistics(GIB), node=0)
    left.process(statistics(2 * GIB), node=1)
    made = left.report()
    assert (made.peak_bytes, made.shared) == (2 * GIB, False)


def test_peaks_of_concurrent_processes_add_up(left: Left) -> None:
    """The first ends as the second starts. The third overlaps both."""
    left.process(statistics(GIB), began=10.0, ended=20.0)
    left.process(statistics(2 * GIB), began=20.0, ended=30.0)
    made = left.report()
    assert (made.peak_bytes, made.shared) == (2 * GIB, False)
    left.process(statistics(3 * GIB), began=15.0, ended=25.0)
    made = left.report()
    assert (made.peak_bytes, made.shared) == (5 * GIB, True)
    assert made.outside_bytes == 2 * CARD.context_bytes


def test_budgets_are_judged(left: Left) -> None:
    left.process(statistics(256 * MIB), snapshot=some(64 * MIB))
    where = "the command line"
    made = left.report(budget=Budget(max_peak=65 * MIB, where=where))
    assert (made.verdict, (made.budget or "")[:4]) == ("fits", "PASS")
    made = left.report(budget=Budget(max_peak=63 * MIB, where=where))
    assert (made.verdict, (made.budget or "")[:4]) == ("over_budget", "FAIL")
    # Budgets apply to all processes, not only to the one shown.
    left.process(statistics(2 * GIB), snapshot=some(MIB))
    made = left.report(budget=Budget(max_peak=63 * MIB, where=where))
    assert (made.verdict, made.shown) == ("over_budget", left.files[2])
    made = left.report(1, budget=Budget(max_peak=63 * MIB, where=where))
    assert made.verdict == "not_known"


def test_incomplete_recording_is_judged_by_counters(left: Left) -> None:
    """For example, the recording has only the last events, or the program itself made it."""
    left.process(statistics(400 * MIB), snapshot=some(64 * MIB))
    for limit, verdict, word in ((100, "fits", "PASS"), (99, "over_budget", "FAIL")):
        made = left.report(budget=Budget(max_peak=limit * MIB))
        assert made.verdict == verdict
        assert (made.budget or "").startswith(f"{word} peak requested 100.0 MiB")
        assert (made.budget or "").endswith("(by the allocator's counters: not all was recorded)")
    made = left.report(budget=Budget(max_peak=99 * MIB, max_reserved=399 * MIB))
    assert (made.budget or "").endswith("; 1 more failed")
    assert made.processes[0].devices[0].recorded_peak_bytes == 64 * MIB


def test_result_is_unknown_if_a_process_reports_no_usage(left: Left) -> None:
    left.process(statistics(GIB))
    left.crashed()
    made = left.report()
    assert (made.verdict, made.exact) == ("not_known", False)


def read(operator: str, line: int, count: int) -> dict[str, Any]:
    place = {"file": "x.py", "line": line, "function": "f", "through": ""}
    return {
        "operator": operator,
        "sizes": operator != "item",
        "sampled": False,
        "assumed": False,
        "chosen": False,
        "count": count,
        **place,
    }


def test_unknown_values_are_added_up(left: Left) -> None:
    left.process(
        statistics(GIB),
        reads=[read("item", 1, 50), read("nonzero", 9, 1)],
        workspaces={"cuDNN": 2, "cuFFT": 0},
        unanswered={"0": 3, "1": 5, "2": 7, "4": 1},
    )
    left.process(
        statistics(GIB),
        reads=[read("item", 1, 4), read("unique", 2, 7)],
        workspaces={"cuDNN": 1},
        unanswered={"3": 1, "4": 1, "5": 1, "6": 1, "7": 1, "8": 1},
    )
    made = left.report()
    assert [(one.operator, one.line, one.count, one.makes_sizes) for one in made.reads] == [
        ("unique", 2, 7, True),
        ("nonzero", 9, 1, True),
        ("item", 1, 54, False),
    ]
    assert [(one.name, one.count) for one in made.workspaces] == [("cuDNN", 3)]
    # Reads in calls that only compute, set or launch something can't affect sizes.
    assert [(one.name, one.count) for one in made.unanswered] == [
        ("cuStreamQuery", 2),
        ("cudaFuncGetAttributes", 3),
        ("cusparseSpMM_bufferSize", 1),
    ]
    assert made.exact is False


@pytest.mark.parametrize(
    "facts",
    [
        {"reads": [read("item", 1, 1)]},
        {"workspaces": {"cuDNN": 1}},
        {"unanswered": {"0": 1}},
        {"estimates": {"counts": [0, 0, 1, 0], "sizes": []}},
    ],
)
def test_any_unknown_value_makes_the_result_inexact(left: Left, facts: dict[str, Any]) -> None:
    left.process(statistics(GIB), **facts)
    assert left.report().exact is False


def test_process_without_a_gpu_fits(left: Left) -> None:
    left.process({}, snapshot=SnapshotBuilder())
    made = left.report()
    assert (made.verdict, made.peak_bytes, made.processes[0].devices) == ("fits", 0, ())
