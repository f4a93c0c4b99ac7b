"""`memreplay watch --live` next to a recorded program in a dry run, and with a fake driver."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.dryrun.cards import environment
from memreplay.dryrun.runtime import built
from memreplay.live.recordings import ask_for_snapshot
from memreplay.snapshot.cards import find
from memreplay.snapshot.recorded_holders import recorded_holders
from tests.conftest import ROOT
from tests.integration.dry import LONGEST, PYTHON, marks

pytestmark = marks

GIB = 1 << 30
OTHERS = "4711 python 10737418240;50 serve 1073741824"
H200 = find("H200")


def watch(**variables: str) -> dict[str, Any]:
    """Return what `watch --live` reports about this machine."""
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "watch", "--live", "--once", "--json"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wait_for(path: Path, program: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LONGEST
    while not path.exists():
        assert program.poll() is None, program.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a program that is recorded while these tests run."""
    import pynvml

    made = tmp_path_factory.mktemp("live")
    (made / "packages").mkdir()
    shutil.copy(pynvml.__file__, made / "packages")
    paths = [str(ROOT / "src"), str(ROOT), str(made / "packages")]
    command = [sys.executable, "-m", "memreplay", "dryrun", "--gpu", "H200"]
    command += ["-o", str(made / "dry.pickle"), "--", PYTHON, "-m", "tests.truth.alive", str(made)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MEMREPLAY_GPU_PROCESSES": OTHERS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        wait_for(made / "told.json", program)
        yield made
        (made / "end").touch()
        program.communicate(timeout=LONGEST)
        assert program.returncode == 0


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def recording_of(report: dict[str, Any], pid: int) -> dict[str, Any]:
    (found,) = [one for one in report["recordings"] if one["pid"] == pid]
    assert isinstance(found, dict)
    return found


def test_recording_equals_what_the_program_says(folder: Path, told: dict[str, Any]) -> None:
    found = recording_of(watch(), told["pid"])
    assert (found["step_count"], found["is_dryrun"], found["can_dump"]) == (1, True, True)
    assert found["name"] == "tests.truth.alive"
    assert found["file"] == str(folder / "end.pickle")
    (device,) = found["devices"]
    for name in ("free", "total", "allocated", "allocated_peak", "reserved", "reserved_peak"):
        assert device[f"{name}_bytes"] == told[name], name


def test_parts_of_the_card_equal_what_the_driver_says(told: dict[str, Any]) -> None:
    (card,) = [
        one for one in watch()["cards"] if any(part["pid"] == told["pid"] for part in one["parts"])
    ]
    assert (card["name"], card["total_bytes"]) == (H200.name, H200.bytes)
    outside = told["total"] - told["free"] - told["reserved"] - 11 * GIB
    assert [(one["kind"], one["pid"], one["bytes"]) for one in card["parts"]] == [
        ("allocated", told["pid"], told["allocated"]),
        ("unused", told["pid"], told["reserved"] - told["allocated"]),
        ("outside", told["pid"], outside),
        ("process", 4711, 10 * GIB),
        ("process", 50, GIB),
        ("free", None, told["free"]),
    ]


def test_snapshot_on_request_has_the_holders(told: dict[str, Any]) -> None:
    assert ask_for_snapshot(told["pid"]) == ""
    until = time.monotonic() + LONGEST
    found: dict[str, Any] = {}
    while not found.get("last_file"):
        assert time.monotonic() < until
        # While it writes the snapshot, a slow machine's recorder may not answer in time.
        with contextlib.suppress(subprocess.CalledProcessError):
            found = recording_of(watch(), told["pid"])
    assert not found["is_dumping"]
    snap = mr.open(found["last_file"])
    holders = recorded_holders(snap)
    assert holders is not None
    largest = holders.groups[0]
    assert (largest.name, largest.bytes) == ("kept[…]", 3 << 28)
    assert found["holders"][0]["name"] == "kept[…]"
    assert found["holders"][0]["bytes"] == 3 << 28
    assert snap.recorder_failures == ()


def test_driver_lists_all_cards(tmp_path: Path) -> None:
    """The driver's library is the fake card's, which here counts watch's own process as well."""
    (tmp_path / "libnvidia-ml.so.1").symlink_to(built("_gpu"))
    found = watch(
        **environment(H200, cuda=13, count=2, bytes=None),
        LD_LIBRARY_PATH=str(tmp_path),
        MEMREPLAY_GPU_PROCESSES=OTHERS,
    )
    assert found["cards_missing"] == ""
    cards = [one for one in found["cards"] if one["index"] is not None]
    assert [one["index"] for one in cards] == [0, 1]
    assert len({one["uuid"] for one in cards}) == 2
    for card in cards:
        assert (card["name"], card["total_bytes"]) == (H200.name, H200.bytes)
        assert sum(one["bytes"] for one in card["parts"]) == H200.bytes
        named = {(one["pid"], one["name"]): one["bytes"] for one in card["parts"]}
        assert named[4711, "python"] == 10 * GIB
        assert named[50, "serve"] == GIB
