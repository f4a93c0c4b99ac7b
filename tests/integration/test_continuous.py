"""Continuous recordings in a dry run, compared with PyTorch's own statistics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.snapshot.model import MeasureName
from tests.conftest import ROOT
from tests.integration.dry import LONGEST, PYTHON, marks

pytestmark = marks

MEASURES: tuple[MeasureName, ...] = ("requested", "allocated", "active", "reserved")
NONE = 0xFFFFFFFF
KEEP = "keep"  # the function that allocates what programs keep


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("continuous")
    dry = tmp_path_factory.mktemp("dry") / "dry.pickle"
    command = [sys.executable, "-m", "memreplay", "dryrun", "-o", str(dry)]
    done = subprocess.run(
        [*command, "--", PYTHON, "-m", "tests.truth.continuous", str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    (folder / "stderr").write_text(done.stderr)
    assert "failed" not in done.stderr, done.stdout + done.stderr
    return folder


def truth(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def assert_exact(file: str, window: dict[str, Any]) -> None:
    with mr.open(file) as snap:
        for measure in MEASURES:
            found = mr.peak(snap, measure=measure).devices[0]
            assert (found.peak_bytes, found.exactness) == (window[measure], "exact"), measure
        assert snap.replay().end_bytes == window["end"]


def carried(file: str) -> dict[int, tuple[int, str]]:
    """Return the requested bytes and the allocating function of what a file begins with, by
    address.
    """
    with mr.open(file) as snap:
        replay, found = snap.replay(), {}
        columns = (replay.carried(name) for name in ("address", "size", "stack", "block"))
        for address, size, stack, block in zip(*columns, strict=True):
            if block != NONE:  # live to the end, so the segments have its stack
                stack = snap.blocks.stack[block]
            frames = snap.stack(stack)
            names = [one.function for one in frames if one.file.endswith(".py")]
            # The backward pass has C++ frames.
            found[address] = size, (names or [one.function for one in frames] or [""])[0]
        return found


def test_each_window_has_pytorchs_peaks(folder: Path) -> None:
    windows = truth(folder, "training")
    assert len(windows) == 6
    for window in windows:
        assert_exact(window["file"], window)


def test_each_window_knows_who_allocated_what_it_begins_with(folder: Path) -> None:
    for window in truth(folder, "training")[1:]:
        found = carried(window["file"])
        kept = {address: size for address, (size, name) in found.items() if name == KEEP}
        assert kept == {int(at): size for at, size in window["kept_before"].items()}
        assert all(name for _, name in found.values())


def test_each_window_has_categories(folder: Path) -> None:
    for window in truth(folder, "training"):
        rows = mr.peak(window["file"], by="category").devices[0].groups
        names = {row.label for row in rows}
        assert {"parameters", "optimizer state", "inputs"} <= names
        assert not {name for name in names if "before" in name or "unknown" in name}


def test_windows_follow_one_another(folder: Path) -> None:
    times: list[Any] = []
    for window in truth(folder, "training"):
        with mr.open(window["file"]) as snap:
            replay = snap.replay()
            assert replay.events > 1000
            times += replay.time_range or ()
    assert times == sorted(times)
    fleet: Any = mr.fleet(str(folder / "training"), dump="each")
    assert len(fleet.history[0].dumps) == 6


def test_ring_that_overflowed_begins_with_what_is_known(folder: Path) -> None:
    window = truth(folder, "ring")
    found = carried(window["file"])
    assert len(found) >= 300
    assert {name for _, name in found.values()} == {KEEP}
    with mr.open(window["file"]) as snap:
        assert snap.replay().end_bytes == window["end"] == sum(window["kept"].values())
        assert snap.replay().events > 10_000
        for measure in MEASURES:
            assert mr.peak(snap, measure=measure).devices[0].exactness == "exact"


def test_threads_and_forks_are_no_obstacle(folder: Path) -> None:
    files = sorted((folder / "threads").iterdir())
    assert [str(file) for file in files[:4]] == truth(folder, "threads")["files"]
    assert len(files) == 5  # the last one at the end; none by the forked processes
    for file in files:
        assert mr.peak(str(file), measure="allocated").devices[0].exactness == "exact"
        assert {name for _, name in carried(str(file)).values()} <= {KEEP}


def test_new_maxima_are_written(folder: Path) -> None:
    told = truth(folder, "peak")
    files = sorted(file.name for file in (folder / "peak").iterdir())
    assert files == [
        "snap.window-000001-peak.pickle",
        "snap.window-000002-peak.pickle",
        "snap.window-000003-peak.pickle",
        "snap.window-000004-oom.pickle",
    ]
    assert told["last"] == files[-1]
    peaks = [mr.peak(str(folder / "peak" / file)).devices[0].peak_bytes for file in files]
    assert peaks == [told["peaks"][i] for i in (0, 2, 4, 4)]


def test_full_disk_loses_only_its_file(folder: Path) -> None:
    first, second, third = truth(folder, "full_disk")
    assert first == second == ["snap.window-000001.pickle"]
    assert third == ["snap.window-000001.pickle", "snap.window-000002.pickle"]
    for name in third:
        assert mr.summary(str(folder / "full_disk" / name)).devices
    assert "the snapshot is lost" in (folder / "stderr").read_text()


def test_killed_program_leaves_whole_files(folder: Path) -> None:
    for there in truth(folder, "killed"):
        files = [name for name in there if not name.startswith(".")]
        assert 1 <= len(files) <= 4
        # A file that isn't whole has another name; the next run removes it.
        assert all(name.endswith(".part") for name in there if name.startswith("."))
        assert len(there) - len(files) <= 1
    for file in (folder / "killed").glob("snap*"):
        assert mr.peak(str(file), measure="allocated").devices[0].exactness == "exact"
