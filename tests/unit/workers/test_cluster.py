"""A Dask cluster gives the same results as a loop, whatever happens to its workers and
scheduler.
"""

from __future__ import annotations

import json
import os
import pickletools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memreplay.errors import MemreplayError, MissingExtraError, UsageError
from memreplay.io.version import __version__
from memreplay.workers import cluster as module
from memreplay.workers.cluster import DaskCluster, called
from memreplay.workers.pool import LocalPool
from memreplay.workers.running import Done, heard, packed
from memreplay.workers.serial import Serial

from . import works

ROOT = Path(__file__).parents[3]

# Dask's processes are killed, so Python has to close their pipes.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def sorted_of(done: Iterator[Done[Any]]) -> list[Done[Any]]:
    return sorted(done, key=lambda one: one.index)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with DaskCluster.local(2) as started:
        yield started


def test_results_match_those_of_a_loop_and_a_pool(cluster: DaskCluster) -> None:
    items = list(range(200))
    found = sorted_of(cluster.run(works.mixed, items))
    assert found == list(Serial().run(works.mixed, items))
    assert found == sorted_of(LocalPool(2).run(works.mixed, items))


def test_cluster_has_workers_and_a_link_and_no_warning(cluster: DaskCluster) -> None:
    assert cluster.workers == 2
    assert cluster.dashboard_link.startswith("http://")
    assert cluster.warning == ""


def test_few_items_are_in_flight(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0
    submit = cluster._submit

    def counted(*what: Any) -> Any:
        nonlocal sent
        sent += 1
        return submit(*what)

    monkeypatch.setattr(cluster, "_submit", counted)
    most = 0
    for count, _ in enumerate(cluster.run(works.square, range(100)), 1):
        most = max(most, sent - count)
    assert sent == 100
    assert most <= 10  # two threads, plus eight


@pytest.mark.slow
def test_item_that_kills_its_workers_is_identified(cluster: DaskCluster) -> None:
    found = sorted_of(cluster.run(works.dies_of_threes, range(12)))
    assert [one.status for one in found] == ["died" if n % 10 == 3 else "ok" for n in range(12)]
    assert all("ended twice; the second at tcp://" in one.error for one in found[3::10])


@pytest.mark.slow
def test_item_that_kills_a_worker_once_is_retried(cluster: DaskCluster, tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(12)]
    found = sorted_of(cluster.run(works.dies_once, items))
    assert found == [Done(number, number, "ok", "") for number in range(12)]


@pytest.mark.slow
def test_items_of_a_killed_worker_are_retried(cluster: DaskCluster) -> None:
    run = cluster.run(works.who, [0.02] * 40)
    first = next(run)
    assert first.result is not None
    os.kill(first.result, signal.SIGKILL)
    assert {one.status for one in run} == {"ok"}


@pytest.mark.parametrize("kind", ["lines", "unpicklable error", "wordless", "exit", "surrogate"])
def test_exceptions_match_those_of_a_loop(cluster: DaskCluster, kind: str) -> None:
    assert list(cluster.run(works.odd, [kind])) == list(Serial().run(works.odd, [kind]))


def test_item_that_cannot_be_sent_is_a_failure(cluster: DaskCluster) -> None:
    items: list[Any] = [lambda: None, 2]
    found = sorted_of(cluster.run(works.square, items))
    assert [one.status for one in found] == ["failed", "ok"]


def test_any_function_that_can_be_pickled_is_sent(cluster: DaskCluster) -> None:
    """Functions defined in a notebook work, too."""
    more = 3
    assert [one.result for one in cluster.run(lambda number: number + more, [4])] == [7]
    held = threading.Lock()
    with pytest.raises(UsageError, match="this function can't be sent to workers:"):
        list(cluster.run(lambda _: held, [1]))


def test_abandoned_run_leaves_no_futures(cluster: DaskCluster) -> None:
    run = cluster.run(works.who, [0.05] * 10)
    next(run)
    run.close()  # type: ignore[attr-defined]
    until = time.monotonic() + 5
    while cluster._client.futures and time.monotonic() < until:
        time.sleep(0.01)
    assert not cluster._client.futures


def test_given_client_stays_open(cluster: DaskCluster) -> None:
    with DaskCluster(client=cluster._client) as same:
        assert [one.result for one in same.run(works.square, [3])] == [9]
    # An earlier test may have killed a worker. Its nanny then starts another.
    late = time.monotonic() + 60
    while cluster.workers < 2:
        assert time.monotonic() < late
        time.sleep(0.1)
    assert [one.result for one in cluster.run(works.square, [3])] == [9]


def test_workers_that_do_not_return_are_an_error(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nobody(DaskCluster):
        there = [2, 0, 0, 0]  # noqa: RUF012

        @property
        def workers(self) -> int:
            return self.there.pop(0)

    monkeypatch.setattr(module, "_COUNT_SECONDS", 0.02)
    left = Nobody(client=cluster._client, patience_seconds=0.03)
    with pytest.raises(
        MemreplayError, match=r"^the Dask cluster at tcp://\S+ has had no workers for \d+ s$"
    ):
        list(left.run(works.who, [1, 1]))


def test_other_version_is_an_error(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__version__", "99.9")
    with pytest.raises(
        MemreplayError, match=r"^a cluster worker can't start: it has .*, but this is 99\.9$"
    ):
        list(cluster.run(works.square, [1]))


def test_worker_reports_a_function_that_it_cannot_load() -> None:
    missing = packed(works.square).replace(b"square", b"circle")
    found: Done[Any] = heard(0, called(__version__, missing, packed(1)))
    assert found.error.startswith("AttributeError: ")
    fine = called(__version__, packed(works.square), packed(3))
    assert heard(0, fine) == Done(0, 9, "ok", "")


def test_scheduler_does_not_load_our_code() -> None:
    """Unpickling the work would run memreplay's code, so it's sent wrapped as bytes."""
    call = packed(module._Call(packed(works.square), packed(3)))
    named = {argument for _, argument, _ in pickletools.genops(packed((packed, call)))}
    # Unpickling one of memreplay's functions would be noticed.
    assert "memreplay.workers.running" in named
    named = {argument for _, argument, _ in pickletools.genops(packed((len, call)))}
    assert not any("memreplay" in one for one in named if isinstance(one, str))


# --- a scheduler and workers that are programs, as on a cluster -----------------------------------

NO_MEMREPLAY = """
import sys
sys.modules["memreplay"] = None
from distributed.cli.dask_scheduler import main
where = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0"]
main([*where, "--scheduler-file", sys.argv[1]])
"""
WORKER = """
import sys
if sys.argv[2] == "bare":
    sys.modules["memreplay"] = None
from distributed.cli.dask_worker import main
main(["--scheduler-file", sys.argv[1], "--no-nanny", "--nthreads", "1", "--no-dashboard"])
"""


class Programs:
    """Subprocesses started by a test; the test must terminate them."""

    def __init__(self, folder: Path) -> None:
        self.file = str(folder / "scheduler.json")
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, code: str, *more: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, self.file, *more],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._started.append(process)
        return process

    def scheduler(self) -> subprocess.Popen[bytes]:
        process = self.start(NO_MEMREPLAY)
        until = time.monotonic() + 20
        while not os.path.exists(self.file) and time.monotonic() < until:
            time.sleep(0.02)
        return process

    def end(self) -> None:
        for process in self._started:
            process.kill()
        for process in self._started:
            process.wait()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    started = Programs(tmp_path)
    yield started
    started.end()


@pytest.mark.slow
def test_killed_scheduler_is_a_one_line_error(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    scheduler = programs.scheduler()
    programs.start(WORKER, "whole")
    with DaskCluster(programs.file) as cluster:
        assert {one.result for one in cluster.run(works.square, [1, 2, 3])} == {1, 4, 9}
        run = cluster.run(works.who, [0.05] * 100)
        next(run)
        scheduler.kill()
        with pytest.raises(MemreplayError, match=r"^lost the Dask scheduler at tcp://\S+: .+"):
            list(run)
        with pytest.raises(MemreplayError, match="it doesn't answer"):
            _ = cluster.workers
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_workers_without_memreplay_are_an_error(programs: Programs) -> None:
    programs.scheduler()
    programs.start(WORKER, "bare")
    with (
        DaskCluster(programs.file) as cluster,
        pytest.raises(MemreplayError, match=r"^a cluster worker doesn't have memreplay \S+: "),
    ):
        list(cluster.run(works.square, [1, 2, 3]))


# --- things that aren't clusters ------------------------------------------------------------------


@pytest.mark.parametrize("said", ["nonsense", "foo://x:1", "tcp://:x"])
def test_invalid_address_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match=r"isn't a scheduler address: .*give one like tcp://"):
        DaskCluster(said)


def test_invalid_scheduler_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    with pytest.raises(UsageError, match=r"scheduler\.json: No such file or directory$"):
        DaskCluster(str(file))
    for text in ("[]", "{", "{}"):
        file.write_text(text)
        with pytest.raises(UsageError, match="isn't a Dask scheduler file"):
            DaskCluster(str(file))
    file.write_text(json.dumps({"address": "nonsense"}))
    with pytest.raises(UsageError, match="isn't a scheduler address:"):
        DaskCluster(str(file))


def test_unreachable_address_is_an_error() -> None:
    with pytest.raises(
        MemreplayError, match=r"^no Dask scheduler answers at tcp://127\.0\.0\.1:9: "
    ):
        DaskCluster("tcp://127.0.0.1:9", connect_seconds=0.2)


def test_cluster_needs_either_an_address_or_a_client() -> None:
    with pytest.raises(UsageError, match="a cluster needs a scheduler address or a client"):
        DaskCluster()
    with pytest.raises(UsageError, match="a cluster needs a scheduler address or a client"):
        DaskCluster("tcp://127.0.0.1:9", client=object())


def test_missing_dask_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        MissingExtraError, match=r"^a cluster needs Dask: pip install .* \(the extra 'fleet'\)$"
    ):
        DaskCluster("tcp://127.0.0.1:9")


@pytest.mark.slow
def test_different_versions_take_one_line() -> None:
    from distributed.versions import error_message

    def versions(python: str) -> dict[str, Any]:
        return {"packages": {"python": python, "dask": "1", "msgpack": python}}

    said = error_message(  # type: ignore[no-untyped-call]
        versions("3.11"), {"tcp://a": versions("3.12")}, versions("3.11")
    )
    assert module._one_line(["something", said["warning"]]) == (
        "package versions differ between this machine and the cluster: msgpack, python"
    )
    assert module._one_line(["something"]) == ""
