"""Workspaces in a dry run's peak."""

from __future__ import annotations

from pathlib import Path

import pytest

from memreplay.commands.dryrun.estimates import Estimates
from memreplay.commands.dryrun.result import Estimate
from memreplay.commands.dryrun.text import dryrun_document, verdict_line
from memreplay.dryrun.launch import Process
from memreplay.render.document import Pairs
from memreplay.snapshot.snapshot import open as open_snapshot
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.dryrun.reports import GIB, report

MIB = 1 << 20
BASE = 1 << 30
PYTHON = [("step", "train.py", 3)]
CONVOLUTION = [("at::native::cudnn_convolution(at::Tensor const&)", "??", 0), *PYTHON]
EMPTY = ("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)", "??", 0)
NETWORK = [EMPTY, ("at::native::_cudnn_rnn(at::Tensor const&)", "??", 0), *PYTHON]
STATES = [EMPTY, ("at::native::_cudnn_init_dropout_state(double, bool)", "??", 0), *PYTHON]
PRODUCT = [("at::native::addmm(at::Tensor const&)", "??", 0), *PYTHON]
FIRST, LAST, RECURRENT, MEASURED = range(4)


def look(
    folder: Path,
    sizes: list[tuple[int, int]],
    *live: tuple[int, list[tuple[str, str, int]]],
    benchmark: bool = False,
) -> tuple[Estimate, ...]:
    """Return the estimates of a process with these sizes, at a peak with these allocations."""
    made = SnapshotBuilder()
    made.segment_alloc(BASE, 100 * MIB)
    at = BASE
    for size, stack in live:
        made.alloc(at, size, frames=stack)
        at += size
    path = folder / "x.pickle"
    path.write_bytes(build.dump(made.build()))
    facts = {"estimates": {"counts": [3, 0, 2, 1], "sizes": sizes}, "benchmark": benchmark}
    estimates = Estimates()
    with open_snapshot(str(path)) as snap:
        estimates.look(Process(1, path, facts, ""), snap)
    return estimates.found()


def test_workspaces_are_recognized_by_size_and_function(tmp_path: Path) -> None:
    found = look(
        tmp_path,
        [(FIRST, 10 * MIB), (RECURRENT, 4 * MIB), (MEASURED, MIB)],
        (10 * MIB, CONVOLUTION),
        (10 * MIB, PRODUCT),  # tensors that happen to have this size
        (10 * MIB, [EMPTY, *CONVOLUTION]),
        (4 * MIB, NETWORK),
        (4 * MIB, STATES),
        (4 * MIB, PYTHON),  # without C++ frames
        (4 * MIB, []),
        (2 * MIB, CONVOLUTION),
    )
    assert found == (
        Estimate("convolutions", 3, 10 * MIB, 10 * MIB * 15 // 100),
        Estimate("recurrent networks", 2, 16 * MIB, 16 * MIB // 100),
        Estimate("measured", 1, 0, 0),
    )


def test_process_without_estimates_has_none(tmp_path: Path) -> None:
    path = tmp_path / "x.pickle"
    path.write_bytes(build.dump(SnapshotBuilder().build()))
    estimates = Estimates()
    with open_snapshot(str(path)) as snap:
        estimates.look(Process(1, path, {}, ""), snap)
        estimates.look(Process(1, path, {"estimates": {"counts": [0] * 4, "sizes": []}}, ""), snap)
    assert estimates.found() == ()


def numbers(*estimates: Estimate, where: str | None = None) -> list[str]:
    made = report(estimates=estimates, exact=False, workspaces_source=where)
    (pairs,) = (one for one in dryrun_document(made) if isinstance(one, Pairs))
    names = [name for name, _ in pairs.rows]
    return [text for _, text in pairs.rows[names.index("numbers") :]]


def test_share_of_the_peak_is_shown() -> None:
    assert numbers(
        Estimate("convolutions", 3, 9 * MIB, MIB),
        Estimate("recurrent networks", 2, 0, 0),
        Estimate("measured", 1, MIB, 0),
        where="NVIDIA H200, cudnn 91900",
    ) == [
        "estimate: cuDNN's workspaces for convolutions, 9.0 MiB of the peak, ±1.0 MiB on an H200",
        "estimate: cuDNN's workspaces for recurrent networks, none in the peak",
        "measured: sizes of cuDNN's workspaces, 1.0 MiB of the peak (NVIDIA H200, cudnn 91900)",
    ]


def test_largest_workspace_is_not_known() -> None:
    estimate = Estimate("convolutions", 1, MIB, 0, benchmark=True)
    (line,) = numbers(estimate)
    assert line.endswith("±0 B on an H200; cudnn.benchmark is set, which may take more")
    assert verdict_line(report(estimates=(estimate,))).startswith("fits T4, as far as is known, ")


@pytest.mark.parametrize("tried", [False, True])
def test_benchmark_only_concerns_convolutions(tmp_path: Path, tried: bool) -> None:
    found = look(tmp_path, [(FIRST, MIB), (RECURRENT, MIB)], benchmark=tried)
    assert [one.benchmark for one in found] == [tried, False, False]


@pytest.mark.parametrize("error, known", [(GIB, True), (13 * GIB, False)])
def test_program_only_fits_if_the_error_does(error: int, known: bool) -> None:
    line = verdict_line(report(estimates=(Estimate("convolutions", 1, 20 * GIB, error),)))
    assert line.startswith("fits T4, 12.0" if known else "fits T4, as far as is known, 12.0")
