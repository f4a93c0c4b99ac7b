"""Files written by earlier versions can still be read.

Each version has a folder that never changes. All were made from a snapshot with 40 allocations of
at least 1,000 bytes in three functions; every second one is freed at the end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from memreplay.analysis.comparing.baseline_reading import parse_baseline
from tests.conftest import ROOT

WRITTEN = sorted((ROOT / "tests" / "data").glob("written_by_*"))
PEAK = sum(range(1000, 1040))


@pytest.mark.parametrize("folder", WRITTEN, ids=lambda path: path.name)
def test_dataset_of_an_earlier_version_is_read(folder: Path) -> None:
    pytest.importorskip("pyarrow")
    snap = mr.open(folder / "dataset")
    assert snap.replay().peak.bytes == PEAK
    assert snap.replay().end_bytes == sum(range(1001, 1040, 2))
    found = mr.peak(snap, by="function").devices[0].groups
    assert {group.label: group.count for group in found} == {"f0": 14, "f1": 13, "f2": 13}


@pytest.mark.parametrize("folder", WRITTEN, ids=lambda path: path.name)
def test_baseline_of_an_earlier_version_is_read(folder: Path) -> None:
    file = folder / "baseline.json"
    (device,) = parse_baseline(file.read_bytes()).devices
    whole = {one.measure: one.bytes for one in device.peaks if not one.category}
    assert whole["held"] == whole["requested"] == PEAK
    pytest.importorskip("pyarrow")
    snap = mr.open(folder / "dataset")
    assert mr.gate(snap, base=file, max_growth="0%", allow_untrusted=True).passed
    (finding,) = mr.gate(snap, base=file, max_peak="1KiB", allow_untrusted=True).findings
    assert (finding.base_bytes, finding.actual_bytes) == (PEAK, PEAK)


def test_every_version_has_a_folder() -> None:
    assert [path.name for path in WRITTEN] == ["written_by_0.2"]
