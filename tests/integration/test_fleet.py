"""A fleet of 300 files, five of them broken and one of these hostile, is the same for a loop, for
processes and for a Dask cluster, of which a worker is killed on the way; and finds the odd rank of
a real job."""

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
from memreplay.commands.fleet.asked import Fleet
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

# Processes of Dask end by signals, and leave it to Python to close their pipes.
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
    """The report; when a third is done one of these processes is killed."""
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
    """The processes of this one."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        found += map(int, (thread / "children").read_text().split())
    return found


def test_it_is_the_truth(made: tuple[Path, dict[str, Any]], serial: FleetReport) -> None:
    folder, truth = made
    told = {row["rank"]: row for row in truth["ranks"]}
    assert [one.rank for one in serial.ranks] == sorted(told)
    assert (serial.files, serial.read) == (300, 295)
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
        assert (device.trusted, len(device.curve)) == (True, row["steps"])
    hostile = next(rank for rank, row in told.items() if row["broken"] == "hostile")
    assert "os.system" in next(one.error for one in serial.ranks if one.rank == hostile)
    # The stages of the pipeline are alike, and the odd rank is named with its code.
    stages: dict[int, set[int]] = {}
    for rank, row in told.items():
        if not row["broken"] and rank != truth["odd"]["rank"]:
            stages.setdefault(row["stage"], set()).add(rank)
    assert sorted(map(sorted, stages.values())) == sorted(
        sorted(group.ranks) for group in serial.groups if len(group.ranks) > 1
    )
    (odd,) = serial.outliers
    assert odd.rank == truth["odd"]["rank"]
    assert told[odd.typical_rank]["stage"] == told[odd.rank]["stage"]
    assert odd.rows[0].frames[0].function == truth["odd"]["function"]


def test_processes_of_which_one_is_killed(
    made: tuple[Path, dict[str, Any]], serial: FleetReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(children())
    pool = LocalPool(2)
    assert ran(made[0], pool, monkeypatch, lambda: sorted({*children()} - before)) == serial


def test_a_cluster_of_which_a_worker_is_killed(
    made: tuple[Path, dict[str, Any]], serial: FleetReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = DaskCluster.local(2)

    def pids() -> list[int]:
        return sorted(cluster._client.run(os.getpid).values())

    assert ran(made[0], cluster, monkeypatch, pids) == serial


def test_the_odd_rank_of_a_real_job() -> None:
    """Eight processes of FSDP2, of which rank 5 keeps a history of its logits."""
    found = mr.fleet(str(ROOT / "examples" / "fsdp_odd_ranks"))
    assert (found.read, found.exactness, found.trusted) == (8, "exact", True)
    assert [one.ranks for one in found.groups] == [(0, 1, 2, 3, 4, 6, 7), (5,)]
    (odd,) = found.outliers
    assert odd.rank == 5
    assert odd.rows[0].frames[0].function == "keep_history"
    assert found.groups[1].differs[0].label.startswith("keep_history ")


def test_an_object_store_that_fails_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same from S3, through a proxy that refuses, resets, ends early and is slow, as from the
    folder; and nothing lands on disk."""
    folder = ROOT / "examples" / "fsdp_odd_ranks"
    local = mr.fleet(str(folder))
    with object_store() as store, proxy_of((store.host, store.port)) as proxy:
        for file in folder.iterdir():
            store.put(f"run/{file.name}", file.read_bytes())
        # What a worker's process reads, too.
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


def test_of_several_dumps_the_newest_is_read(tmp_path: Path) -> None:
    """As torchtitan writes them: rank 1 of the later one has more."""
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


def test_of_one_file_each_device_is_a_row(tmp_path: Path) -> None:
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
    assert (found["files"], found["read"], found["rank_source"]) == (1, 1, "devices")
    assert found["worst"][0] == 1
    assert found["imbalance"] > 1
    done = command_runner().invoke(app, ["fleet", str(path)])
    assert "3 devices: highest peak 30.0 MiB requested on device 1" in done.stdout
    assert "devices    the file's devices, a row each" in done.stdout
    assert "rank" not in done.stdout
    assert "more device" not in done.stdout
