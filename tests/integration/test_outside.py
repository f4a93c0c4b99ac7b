"""Memory outside PyTorch's allocator, recorded in a dry run on a card that others use, too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import memreplay as mr
from memreplay.commands.app import app
from memreplay.snapshot.cards import find
from memreplay.snapshot.recorded_memory import CardSamples, CardUse, card_samples, host_use
from tests.conftest import ROOT
from tests.integration.dry import LONGEST, PYTHON, marks

pytestmark = marks

GIB = 1 << 30
OTHERS = {4711: ("python", 10 * GIB), 50: ("serve", GIB)}
NAMES = ("kernels", "cublas", "more_kernels", "cusolver", "pinned", "reserved", "released")
H200 = find("H200")


def run(folder: Path, *, nvml: bool = True, mig: bool = False) -> dict[str, Any]:
    """Run the program on a card with two other processes."""
    paths = [str(ROOT / "src"), str(ROOT)]
    if nvml:
        import pynvml

        packages = folder / "packages"
        packages.mkdir()
        shutil.copy(pynvml.__file__, packages)
        paths.append(str(packages))
    others = ";".join(f"{pid} {name} {taken}" for pid, (name, taken) in OTHERS.items())
    command = [sys.executable, "-m", "memreplay", "dryrun", "--gpu", "H200"]
    command += ["-o", str(folder / "dry.pickle")]
    done = subprocess.run(
        [*command, "--", PYTHON, "-m", "tests.truth.outside", str(folder)],
        cwd=ROOT,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(paths),
            "MEMREPLAY_GPU_PROCESSES": others,
            "MEMREPLAY_GPU_MIG": str(int(mig)),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    assert (folder / "told.json").exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("outside")
    run(made)
    return made


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    assert set(found) == {*NAMES, "oom"}
    return found


def samples(path: Path) -> CardSamples:
    (found,) = card_samples(mr.open(path))
    return found


def use(path: Path) -> CardUse:
    return samples(path).use()


@pytest.mark.parametrize("name", NAMES)
def test_last_sample_equals_the_driver(folder: Path, told: dict[str, Any], name: str) -> None:
    found, truth = use(folder / f"{name}.pickle"), told[name]
    assert found.free_bytes == truth["free"]
    assert found.total_bytes == truth["total"] == H200.bytes
    assert found.reserved_bytes == truth["reserved"]
    assert found.other_bytes == 11 * GIB
    assert found.outside_bytes == (
        truth["total"] - truth["free"] - truth["reserved"] - found.other_bytes
    )


def test_outside_is_what_was_measured_on_a_card(folder: Path) -> None:
    """The steps of docs/dryrun.md, which dry runs emulate."""
    sizes = H200.outside
    context = H200.context_bytes + sizes.kernels
    expected = {
        "kernels": context,
        "cublas": context + sizes.cublas,
        "more_kernels": context + sizes.cublas + sizes.cublas_more,
    }
    assert {name: use(folder / f"{name}.pickle").outside_bytes for name in expected} == expected


def test_other_processes_are_named(folder: Path) -> None:
    found = use(folder / "released.pickle")
    assert [(one.pid, one.name, one.bytes) for one in found.processes if not one.is_recorded] == [
        (pid, name, taken) for pid, (name, taken) in OTHERS.items()
    ]
    (own,) = (one for one in found.processes if one.is_recorded)
    assert own.bytes == found.outside_bytes + found.reserved_bytes
    text = " ".join(str(mr.report(mr.open(folder / "released.pickle"))).split())
    assert "another process: pid 4711 python" in text
    assert found.processes_missing == ""


def test_failed_request_has_its_own_sample(folder: Path, told: dict[str, Any]) -> None:
    snap = mr.open(folder / "end.oom.pickle")
    report = mr.oom(snap)
    (found,) = report.card_memory
    (device,) = report.devices
    assert found.at_oom
    assert found.free_bytes == told["oom"]["free"] == device.ooms[0].device_free_bytes
    assert found.reserved_bytes == told["oom"]["reserved"]
    assert "in use on the card when the request failed" in " ".join(str(report).split())


def test_pinned_memory_equals_the_allocator(folder: Path, told: dict[str, Any]) -> None:
    found, truth = host_use(mr.open(folder / "pinned.pickle")), told["pinned"]
    assert found is not None
    assert found.pinned_bytes == truth["pinned"] == 3 * (4 << 20)  # rounded to powers of two
    if found.pinned_active_bytes is not None:  # PyTorch 2.11 counts it wrongly
        assert found.pinned_active_bytes == truth["pinned_active"] == 2 * (4 << 20)
    assert found.resident_bytes is not None
    assert found.resident_bytes > 100 << 20


def test_simulations_use_what_was_measured(folder: Path) -> None:
    path = folder / "cusolver.pickle"
    report = mr.simulate(mr.open(path), total_memory=(H200.bytes,))
    (device,) = report.devices
    assert device.context_measured
    assert device.context_bytes == use(path).outside_bytes
    assert "of the card for CUDA itself (measured)" in " ".join(str(report).split())


def test_recorded_pinned_memory_equals_the_allocator(
    folder: Path, told: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "pinned.pickle"
    command = ["export", str(folder / "released.pickle"), "--host", "-o", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    replay = mr.open(out).replay(0)
    peak = 3 * (4 << 20)
    assert replay.measure("requested").peak.bytes == peak
    for measure in ("requested", "active"):
        assert replay.measure(measure).end_bytes == told["released"]["pinned_active"]
    assert replay.measure("reserved").end_bytes == told["released"]["pinned"]
    (device,) = mr.summary(mr.open(out)).devices
    assert (device.trusted, device.reasons) == (True, ())
    (group,) = mr.peak(mr.open(out), by="file").devices[0].groups
    assert group.label.endswith("outside.py")
    assert group.bytes == peak


def test_recorder_had_no_failures(folder: Path) -> None:
    for path in folder.glob("*.pickle"):
        assert mr.open(path).recorder_failures == ()


def test_part_of_a_card_is_named_as_such(tmp_path: Path) -> None:
    run(tmp_path, mig=True)
    found = use(tmp_path / "cublas.pickle")
    assert found.is_part
    assert found.other_bytes == 11 * GIB
    assert "(MIG)" in str(mr.report(mr.open(tmp_path / "cublas.pickle")))


def test_without_a_list_the_sum_is_known(tmp_path: Path) -> None:
    truth = run(tmp_path, nvml=False)["cublas"]
    found = use(tmp_path / "cublas.pickle")
    assert found.other_bytes is None
    assert found.outside_bytes == truth["total"] - truth["free"] - truth["reserved"]
    assert found.processes_missing == "install nvidia-ml-py to see other processes"
    text = " ".join(str(mr.report(mr.open(tmp_path / "cublas.pickle"))).split())
    assert "outside PyTorch's allocator: context, kernels, libraries, other processes" in text
