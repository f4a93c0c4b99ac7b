"""tests/truth notices differences from PyTorch. In these tests, the allocator model replaces
PyTorch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.allocator import Device, Machine
from tests.allocator_blocks import MIB
from tests.truth import against
from tests.truth.cases import (
    CASES,
    FREE,
    PROGRAMS,
    RECORDED,
    RECORDED_WITH_OLDER,
    SMALL,
    T4,
    WITH_OLDER,
    Case,
)
from tests.truth.compare import _size, compare


class Told:
    """The statistics that a program's process would have reported."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.machine.begin_recording()
        self.moments: list[dict[str, Any]] = []

    @property
    def device(self) -> Device:
        return self.machine.devices[0]

    def moment(self) -> None:
        segments = [one | {"device": 0} for one in self.device.segments()]
        blocks = [block for one in segments for block in one["blocks"]]
        live = [one for one in blocks if one["state"] != "inactive"]
        kept = [one for one in live if one["state"] == "active_allocated"]
        now = {
            "requested": sum(one["requested_size"] for one in live),
            "active": sum(one["size"] for one in live),
            "allocated": sum(one["size"] for one in kept),
            "reserved": sum(one["total_size"] for one in segments),
        }
        before = self.moments[-1]["figures"][0] if self.moments else {}
        figures: dict[str, Any] = {
            name: {
                "current": n_bytes,
                "peak": max(n_bytes, before[name]["current"] if before else 0),
            }
            for name, n_bytes in now.items()
        }
        figures["held"] = {"current": sum(one["requested_size"] for one in kept)}
        self.device.record_snapshot()
        self.moments.append(
            {
                "snapshot": len(self.moments),
                "figures": [figures],
                "segments": segments,
                "ooms": [0],
            }
        )

    def truth(self) -> dict[str, Any]:
        found = {"moments": self.moments, "taken": len(self.moments), "leaks": None}
        return found | {name: [] for name in ("steps", "peaks", "stepped", "ooms", "categories")}


def told() -> Told:
    found = Told()
    found.moment()
    blocks = []
    for size in (100, 3 * MIB, 7, 30 * MIB, MIB):
        blocks.append(found.device.malloc(size))
        found.moment()
    for block in (blocks[0], blocks[3]):
        assert block is not None
        found.device.free(block)
        found.moment()
    return found


def figures(folder: Path, found: Told, change: Callable[[Any], None] = lambda _: None) -> Any:
    snapshot, _ = found.machine.dump()
    truth = found.truth()
    change(truth)
    path = folder / "1.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    path.with_suffix(".truth").write_bytes(pickle.dumps(truth))
    return compare(Case("gpt"), path)


def test_equal_figures_pass(tmp_path: Path) -> None:
    found = figures(tmp_path, told())
    assert found.wrong == []
    assert found.estimated == 0
    # Five measures at eight moments, four measures' peaks between moments, and each moment's map.
    assert found.equal > 5 * 8 + 4 * 7 + 8 * 2


def add(measure: str, of: str, n_bytes: int) -> Callable[[Any], None]:
    def change(truth: Any) -> None:
        truth["moments"][4]["figures"][0][measure][of] += n_bytes

    return change


@pytest.mark.parametrize("measure", ["requested", "active", "allocated", "reserved", "held"])
def test_different_value_at_a_moment_fails(tmp_path: Path, measure: str) -> None:
    (wrong,) = figures(tmp_path, told(), add(measure, "current", 1)).wrong
    assert wrong.what.startswith(f"{measure} at event ")
    assert wrong.truth == wrong.memreplay + 1


@pytest.mark.parametrize("measure", ["requested", "active", "allocated", "reserved"])
def test_different_peak_fails(tmp_path: Path, measure: str) -> None:
    """First a peak in the middle differs, then the overall peak, which is higher."""
    assert len(figures(tmp_path, told(), add(measure, "peak", -1)).wrong) >= 1
    found = figures(tmp_path, told(), add(measure, "peak", 1 << 40)).wrong
    assert [one.what.split(", ")[0] for one in found] == [measure] * 2


def of_block(name: str, value: Any) -> Callable[[Any], None]:
    def change(truth: Any) -> None:
        truth["moments"][6]["segments"][0]["blocks"][0][name] = value

    return change


@pytest.mark.parametrize("name, value", [("size", 513), ("state", "active_pending_free")])
def test_different_block_fails(tmp_path: Path, name: str, value: Any) -> None:
    (wrong,) = figures(tmp_path, told(), of_block(name, value)).wrong
    assert wrong.what.startswith("blocks at ")


def test_missing_records_fail(tmp_path: Path) -> None:
    def change(truth: Any) -> None:
        truth["ooms"] = [("", "capacity")]
        truth["leaks"] = []
        truth["moments"][-1]["ooms"] = [1]

    wrong = figures(tmp_path, told(), change).wrong
    assert [one.what for one in wrong] == [
        "requests that failed",
        "oom: how many",
        "leaks: judged",
    ]


@pytest.mark.parametrize(
    "n_bytes, text",
    [(7, "7 bytes"), (1 << 30, "1024.00 MiB"), ((1 << 30) + 1, "1.00 GiB"), (1536, "1.50 KiB")],
)
def test_sizes_are_formatted_as_in_pytorch(n_bytes: int, text: str) -> None:
    assert _size(n_bytes) == text


def test_every_program_has_a_case() -> None:
    assert len({case.program for case in CASES}) >= 25
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    for recorded, folder in ((False, PROGRAMS), (True, RECORDED)):
        there = {path.stem for path in folder.glob("*.py")}
        assert {case.program for case in CASES if case.recorded is recorded} == there
    assert set(WITH_OLDER) <= {(case.program, case.settings) for case in CASES}
    assert set(RECORDED_WITH_OLDER) <= {case.program for case in CASES if case.recorded}


def test_only_suitable_cases_run_on_a_real_card() -> None:
    """Cases for other cards don't run; cases for small cards run with only as much memory free as
    these cards have.
    """
    cases = [case for case in CASES if case.on_a_card]
    assert len(cases) > 100
    assert not {"two_devices", "oom_pending"} & {case.program for case in cases}
    for case in cases:
        environment = case.on_gpu()["environment"]
        assert isinstance(environment, dict)
        assert "MEMREPLAY_GPU" not in environment
        free = {T4: "15637086208", SMALL: str(3 << 30)}.get(case.card)
        assert environment.get(FREE) == (None if case.program == "limited" else free)


def test_peaks_of_two_runs_are_compared() -> None:
    peaks: against.Peaks = {
        "a": {"requested": 10, "active": 512, "reserved": 2 * MIB},
        "b": {"requested": 20, "active": 512, "reserved": 2 * MIB},
    }
    same = "of 2 cases the same peak, to the byte: 2 requested, 2 active, 2 reserved; all three 2"
    assert against.told(peaks, peaks) == ([same], True)
    other = {"b": {**peaks["b"], "requested": 25}, "c": peaks["a"]}
    assert against.told(peaks, other) == (
        [
            "a: in one of them",
            "c: in one of them",
            "b: requested 20 and 25, -5 (-20.00%)",
            "of 1 cases the same peak, to the byte: 0 requested, 1 active, 1 reserved; all three 0",
        ],
        False,
    )
    assert not against.told({}, {})[1]


def test_peaks_of_a_saved_run_are_read(tmp_path: Path) -> None:
    snapshot, _ = told().machine.dump()
    (tmp_path / "7.pickle").write_bytes(pickle.dumps(snapshot))
    against.write_index(tmp_path, {"a": 7})
    peaks = against.peaks_of(tmp_path)
    assert list(peaks) == ["a"]
    assert peaks["a"]["requested"] == 100 + 3 * MIB + 7 + 30 * MIB + MIB
