"""A fleet of 300 files, five of them broken (one hostile), gives the same report whether it's read
in one process, by several, or by a Dask cluster that loses a worker. A real job's odd rank is
found.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import make_fleet
import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.app import app
from memreplay.commands.fleet import running
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.source import Reading
from memreplay.fleets.result import FleetReport
from memreplay.workers.cluster import DaskCluster
from memreplay.workers.pool import LocalPool
from memreplay.workers.running import Done
from memreplay.workers.serial import Serial
from tests import build
from tests.allocator import Machine
from tests.build import SnapshotBuilder
from tests.commanding import command_runner
from tests.conftest import ROOT
from tests.faulty_proxy import proxy_of
from tests.object_store import object_store

# Dask's processes are killed, so Python has to close their pipes.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FLEET = make_fleet.Fleet(ranks=300, kb=(60, 150, 400), stages=4, odd=200, broken=5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("fleet")
    return folder, make_fleet.make_fleet(folder, FLEET)


def ran(
    folder: Path,
    executor: Any,
    monkeypatch: pytest.MonkeyPatch,
    pids: Callable[[], list[int]] | None = None,
) -> FleetReport:
    """Return the report; kill one of these processes after a third of the files."""
    killed: list[int] = []

    def watching(done: Iterator[Done[Any]], files: int) -> Iterator[Done[Any]]:
        for number, one in enumerate(done):
            if number == files // 3 and pids is not None:
                killed.append(pids()[0])
                os.kill(killed[0], signal.SIGKILL)
            yield one

    monkeypatch.setattr(running, "executor_of", lambda *_: executor)
    report = run_fleet(Fleet(sources=(str(folder),)), Reading(), Selection(), watching)
    assert len(killed) == (pids is not None)
    return report


@pytest.fixture(scope="module")
def serial(made: tuple[Path, dict[str, Any]]) -> FleetReport:
    with pytest.MonkeyPatch.context() as patched:
        return ran(made[0], Serial(), patched)


def children() -> list[int]:
    """Return this process's child processes."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


def test_report_matches_the_truth(made: tuple[Path, dict[str, Any]], serial: FleetReport) -> None:
    folder, truth = made
    told = {row["rank"]: row for row in truth["ranks"]}
    assert [one.rank for one in serial.ranks] == sorted(told)
    assert (serial.file_count, serial.read_count) == (300, 295)
    for one in serial.ranks:
        assert one.rank is not None
        row = told[one.rank]
        assert Path(one.file) == folder / row["file"]
        if row["broken"]:
            assert (one.status, one.devices) == ("unreadable", ())
            assert one.error
            continue
        (device,) = one.devices
        assert (device.device, device.peak_bytes, device.reserved_peak_bytes) == (
            row["device"],
            row["peak_bytes"],
            row["reserved_bytes"],
        )
        assert (device.trusted, len(device.curve_bytes)) == (True, row["steps"])
    hostile = next(rank for rank, row in told.items() if row["broken"] == "hostile")
    assert "os.system" in next(one.error or "" for one in serial.ranks if one.rank == hostile)
    # The pipeline's stages are groups, and the odd rank is shown with its code.
    stages: dict[int, set[int]] = {}
    for rank, row in told.items():
        if not row["broken"] and rank != truth["odd"]["rank"]:
            stages.setdefault(row["stage"], set()).add(rank)
    assert sorted(map(sorted, stages.values())) == sorted(
        sorted(group.rank_numbers) for group in serial.groups if len(group.rank_numbers) > 1
    )
    (odd,) = serial.outliers
    assert odd.rank == truth["odd"]["rank"]
    assert told[odd.typical_rank]["stage"] == told[odd.rank]["stage"]
    assert odd.rows[0].frames[0].function == truth["odd"]["function"]


def test_killed_process_does_not_change_the_report(
    made: tuple[Path, dict[str, Any]], serial: FleetReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(children())
    pool = LocalPool(2)
    assert ran(made[0], pool, monkeypatch, lambda: sorted({*children()} - before)) == serial


def test_killed_cluster_worker_does_not_change_the_report(
    made: tuple[Path, dict[str, Any]], serial: FleetReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = DaskCluster.local(2)

    def pids() -> list[int]:
        return sorted(cluster._client.run(os.getpid).values())

    assert ran(made[0], cluster, monkeypatch, pids) == serial


def test_odd_rank_of_a_real_job_is_found() -> None:
    """The job has eight FSDP2 processes; rank 5 keeps a history of its logits."""
    found = mr.fleet(str(ROOT / "examples" / "fsdp_odd_ranks"))
    assert (found.read_count, found.exactness, found.trusted) == (8, "exact", True)
    assert [one.rank_numbers for one in found.groups] == [(0, 1, 2, 3, 4, 6, 7), (5,)]
    (odd,) = found.outliers
    assert odd.rank == 5
    assert odd.rows[0].frames[0].function == "keep_history"
    assert found.groups[1].differs[0].label.startswith("keep_history ")


def test_unreliable_object_store_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy in front of S3 is slow, refuses and resets connections and truncates responses.
    Nothing is written to disk.
    """
    folder = ROOT / "examples" / "fsdp_odd_ranks"
    local = mr.fleet(str(folder))
    with object_store() as store, proxy_of((store.host, store.port)) as proxy:
        for file in folder.iterdir():
            store.put(f"run/{file.name}", file.read_bytes())
        # Set these in the environment, so that worker processes get them as well.
        for name, value in (
            ("AWS_ENDPOINT_URL", proxy.url),
            ("AWS_ACCESS_KEY_ID", store.key),
            ("AWS_SECRET_ACCESS_KEY", store.secret),
        ):
            monkeypatch.setenv(name, value)
        proxy.faults.refused, proxy.faults.resets, proxy.faults.closes = 3, 2, 2
        proxy.faults.after, proxy.faults.rate = 10_000, 2_000_000
        url = f"s3://{store.bucket}/run"
        found = mr.fleet(f"{url}/*.pkl.gz", workers=2)
        assert sum(name == "GET" for name, *_ in proxy.seen) > 8
    named = [replace(one, file=f"{url}/{Path(one.file).name}") for one in local.ranks]
    assert list(found.ranks) == named
    assert found.outliers == local.outliers
    assert found.groups == local.groups


def test_newest_of_several_dumps_is_read(tmp_path: Path) -> None:
    """The files are named as torchtitan names them; rank 1's later dump has more events."""
    for step, sizes in ((10, (5, 6)), (9, (8, 9))):
        folder = tmp_path / f"iteration_{step}"
        folder.mkdir()
        for rank, size in enumerate(sizes):
            made = SnapshotBuilder().segment_alloc(2**40, 2**25).alloc(2**40, size << 20)
            path = folder / f"rank{rank}_memory_snapshot.pickle"
            path.write_bytes(build.dump(made.finish_segments().build()))

    def asked(*more: str) -> tuple[list[int], str]:
        done = command_runner().invoke(
            app, ["fleet", str(tmp_path), "--format", "json", *more], prog_name="memreplay"
        )
        assert done.exit_code == 0, done.stderr
        ranks = json.loads(done.stdout)["ranks"]
        return [one["devices"][0]["peak_bytes"] >> 20 for one in ranks], done.stderr

    peaks, said = asked()
    assert peaks == [5, 6]
    assert "each rank has several dumps (iteration_9, iteration_10): the newest is read" in said
    assert asked("--dump", "iteration_9") == ([8, 9], "")


def test_every_device_of_a_file_is_a_row(tmp_path: Path) -> None:
    machine = Machine(devices=3)
    for at, device in enumerate(machine.devices):
        device.malloc((10 + 20 * (at == 1)) << 20, stack=(("work", "train.py", 3 + at),))
    path = tmp_path / "snap.pickle"
    path.write_bytes(build.dump(machine.dump()[0]))
    done = command_runner().invoke(app, ["fleet", str(path), "--format", "json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(one["rank"], one["devices"][0]["device"]) for one in found["ranks"]] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]
    assert (found["file_count"], found["read_count"], found["rank_source"]) == (1, 1, "devices")
    assert found["worst"][0] == 1
    assert found["imbalance"] > 1
    done = command_runner().invoke(app, ["fleet", str(path)])
    assert "3 devices: highest peak 30.0 MiB requested on device 1" in done.stdout
    assert "devices    one row per device in the file" in done.stdout
    assert "rank" not in done.stdout
    assert "more device" not in done.stdout
