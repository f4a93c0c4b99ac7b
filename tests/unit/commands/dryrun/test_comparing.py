"""Tests of commands/dryrun/comparing.py, with faked runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memreplay.analysis.comparing.operators import OperatorCause
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.dryrun import comparing
from memreplay.commands.dryrun.comparing import compare, comparison_document, explained
from memreplay.commands.dryrun.comparing_result import ComparedRun, DryrunComparison
from memreplay.commands.dryrun.result import DryDevice, DryrunReport
from memreplay.commands.dryrun.running import DryrunOptions
from memreplay.errors import MemreplayError, NothingToTellError, UsageError
from memreplay.render.plain import render_plain
from memreplay.render.record_json import render_json
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.dryrun.reports import GIB, one_process, outside, report
from tests.unit.commands.dryrun.test_running import ASKED
from tests.unit.render.schemas import check_against

FITS = report()
NOT = report(verdict="does_not_fit", spare_bytes=-GIB)
OOM = report(verdict="does_not_fit", outcome="out_of_memory")
FAILED = report(verdict="not_known", outcome="failed", exit_code=1)
STOPPED = report(verdict="not_known", outcome="interrupted", exit_code=-2)
NOTHING = NothingToTellError("the program used no GPU")
Run = Callable[..., tuple[int, list[DryrunOptions]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Run:
    """Compare runs with these results."""
    monkeypatch.chdir(tmp_path)

    def compared(
        *results: DryrunReport | MemreplayError, names: str = "T4,L4,A10G", **changes: Any
    ) -> tuple[int, list[DryrunOptions]]:
        asked: list[DryrunOptions] = []
        left = list(results)

        def ran(one: DryrunOptions, _: Selection) -> DryrunReport:
            asked.append(one)
            result = left.pop(0)
            if isinstance(result, MemreplayError):
                raise result
            return result

        monkeypatch.setattr(comparing, "ran", ran)
        return compare(replace(ASKED, compare=names, **changes), Selection()), asked

    return compared


def test_each_run_gets_its_arguments(run: Run) -> None:
    names = "T4, rtx 4090 ,a:1+b:2"
    code, asked = run(FITS, FITS, FITS, names=names, output="x.pkl.gz")
    assert code == 0
    assert [(one.gpu, one.settings, one.output) for one in asked] == [
        ("T4", (), "x.T4.pkl.gz"),
        ("rtx 4090", (), "x.RTX4090.pkl.gz"),
        ("L4", ("a:1,b:2",), "x.a-1-b-2.pkl.gz"),
    ]
    assert {one.compare for one in asked} == {None}


def test_changes_are_compared_with_the_program_as_it_is(run: Run) -> None:
    names = "unchanged, checkpoint=h.*[::2]+fused=on,a:1"
    _, asked = run(FITS, FITS, FITS, names=names, change=("foreach=off",))
    assert [(one.change, one.settings) for one in asked] == [
        (("foreach=off",), ()),
        (("foreach=off", "checkpoint=h.*[::2]", "fused=on"), ()),
        (("foreach=off",), ("a:1",)),
    ]
    assert {(one.gpu, one.compare) for one in asked} == {("L4", None)}


@pytest.mark.parametrize(
    "results, code",
    [
        ((NOT, FITS, FAILED), 0),
        ((NOT, OOM, FAILED), 1),
        ((NOT, NOTHING, FAILED), 1),
        ((FAILED, NOTHING, FAILED), 6),
        ((NOTHING, NOTHING, NOTHING), 5),
        ((UsageError("no torch"), NOTHING, NOTHING), 2),
    ],
)
def test_exit_code_depends_on_all_runs(
    run: Run, results: tuple[DryrunReport | MemreplayError, ...], code: int
) -> None:
    assert run(*results)[0] == code


def test_ctrl_c_stops_all_runs(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code, asked = run(STOPPED, FITS, FITS)
    assert (code, len(asked)) == (6, 1)
    assert capsys.readouterr().err == "memreplay: run 1 of 3: T4\n"


def test_invalid_names_are_rejected(run: Run) -> None:
    for names in ("", "T4,", " , "):
        with pytest.raises(
            UsageError,
            match="--compare needs cards or settings, separated by commas: T4,L4,A100-40",
        ):
            run(names=names)
    with pytest.raises(UsageError, match="takes at most 64 runs"):
        run(names=",".join(f"a:{i}" for i in range(65)))


def comparison_text(*runs: ComparedRun) -> str:
    return render_plain(
        comparison_document(DryrunComparison(runs=runs, lowest=runs[0].name)), width=120
    )


def table(*runs: ComparedRun) -> list[list[str]]:
    lines = comparison_text(*runs).splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_duplicate_run_names_are_rejected(run: Run) -> None:
    for names in ("T4,t4", "T4,Tesla T4", "expandable_segments:True,expandable_segments:True"):
        with pytest.raises(UsageError, match=r"--compare names .* twice"):
            run(names=names)


def test_table_has_a_row_per_run() -> None:
    sizes = replace(FITS, exact=False)
    found = table(
        ComparedRun("T4", FITS),
        ComparedRun("a\x1b[1m:1", NOT),
        ComparedRun("L4", OOM),
        ComparedRun("L40S", sizes),
        ComparedRun("A10G", FAILED),
        ComparedRun("H100", None, "no\nway"),
    )
    caught = one_process(7, DryDevice(0, outside(), GIB, GIB, GIB, GIB, 4, 1))
    said = comparison_text(ComparedRun("T4", replace(FITS, processes=(caught,))))
    assert "warning: T4: 4 requests failed and the program continued; see" in said
    assert r"warning: H100: no\nway" in comparison_text(ComparedRun("H100", None, "no\nway"))
    assert found[:7] == [
        ["run", "allocated", "reserved", "to spare", "exact", "verdict"],
        ["T4", "2.0 GiB", "3.0 GiB", "12.0 GiB", "yes", "fits"],
        [r"a\x1b[1m:1", "2.0 GiB", "3.0 GiB", "-1.0 GiB", "yes", "does not fit"],
        ["L4", "2.0 GiB", "3.0 GiB", "-", "yes", "out of memory"],
        ["L40S", "2.0 GiB", "3.0 GiB", "12.0 GiB", "no", "fits"],
        ["A10G", "2.0 GiB", "3.0 GiB", "-", "yes", "failed"],
        ["H100", "-", "-", "-", "-", "not run"],
    ]


FILES = {"T4": "t4.pickle", "L4": "l4.pickle", "H100": "h100.pickle"}
MATH, FLASH = "aten::_scaled_dot_product_attention_math", "aten::_flash_attention_forward"


def attention(operator: str, megabytes: int) -> Any:
    """Return a snapshot in which a line of the program calls an operator."""
    b = SnapshotBuilder()
    frames = [
        (f"at::_ops::{operator.removeprefix('aten::')}::call(at::Tensor const&)", "??", 0),
        ("forward", "/home/me/train.py", 8),
    ]
    b.alloc(1 << 30, megabytes << 20, frames=frames)
    b.alloc(1 << 40, 8 << 20, frames=[("main", "/home/me/train.py", 2)])
    return b.finish_segments().build()


def of_file(name: str, requested: int) -> ComparedRun:
    device = DryDevice(0, outside(), GIB, GIB, requested << 20, requested << 20, 0, 0)
    file = FILES[name]
    return ComparedRun(name, report(shown=file, processes=(one_process(7, device, file=file),)))


def test_operators_explain_higher_peaks(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = {"T4": (MATH, 92), "L4": (FLASH, 12), "H100": (FLASH, 12)}
    for name, (operator, megabytes) in sizes.items():
        Path(FILES[name]).write_bytes(build.dump(attention(operator, megabytes)))
    missing = ComparedRun("A10G", None, "no")
    runs = [of_file("T4", 100), missing, of_file("L4", 20), of_file("H100", 20)]
    found = explained(runs)
    assert found.lowest == "L4"
    assert [run.change_bytes for run in found.runs] == [80 << 20, 0, 0, 0]
    file = "/home/me/train.py"
    assert [run.causes for run in found.runs] == [
        (OperatorCause(MATH, file, 8, 92 << 20, FLASH),),
        (),
        (),
        (),
    ]
    said = " ".join(render_plain(comparison_document(found), width=80).split())
    assert said.endswith(
        f"note: T4: its peak is 80.0 MiB higher than L4's: 92.0 MiB in {MATH} ({file}:8), where L4"
        f" calls {FLASH}"
    )
    check_against("dryrun-comparison-1.json", json.loads(render_json(found)))


def test_program_without_enough_memory_is_never_the_lowest(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (operator, megabytes) in {"T4": (MATH, 92), "L4": (FLASH, 12)}.items():
        Path(FILES[name]).write_bytes(build.dump(attention(operator, megabytes)))

    def out_of_memory(requested: int) -> ComparedRun:
        run = of_file("T4", requested)
        assert run.report is not None
        failed = replace(run.report, outcome="out_of_memory", verdict="does_not_fit")
        return replace(run, report=failed)

    found = explained([out_of_memory(10), of_file("L4", 20)])
    assert (found.lowest, [run.causes for run in found.runs]) == ("L4", [(), ()])
    found = explained([out_of_memory(100), of_file("L4", 20)])
    said = " ".join(render_plain(comparison_document(found), width=80).split())
    assert f"note: T4: its peak is at least 80.0 MiB higher than L4's: 92.0 MiB in {MATH}" in said
    assert explained([out_of_memory(10)]).lowest is None


def test_peaks_are_only_explained_if_they_differ(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # without any files
    found = explained([of_file("T4", 1005), of_file("L4", 1000)])
    assert (found.lowest, found.runs[0].change_bytes) == ("L4", 5 << 20)
    assert "higher" not in render_plain(comparison_document(found), width=80)
    assert explained([ComparedRun("T4", None, "no")]).lowest is None
