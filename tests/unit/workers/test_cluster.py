"""A Dask cluster says what a loop would, whatever its workers and its scheduler come to."""

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

# Processes of Dask end by signals, and leave it to Python to close their pipes.
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


def test_it_says_what_a_loop_and_a_pool_say(cluster: DaskCluster) -> None:
    items = list(range(200))
    found = sorted_of(cluster.run(works.mixed, items))
    assert found == list(Serial().run(works.mixed, items))
    assert found == sorted_of(LocalPool(2).run(works.mixed, items))


def test_it_has_workers_and_a_link_and_no_warning(cluster: DaskCluster) -> None:
    assert cluster.workers == 2
    assert cluster.dashboard_link.startswith("http://")
    assert cluster.warning == ""


def test_few_items_are_there_at_once(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert most <= 10  # two threads, and eight


@pytest.mark.slow
def test_who_is_to_blame_is_told_from_who_was_near(cluster: DaskCluster) -> None:
    found = sorted_of(cluster.run(works.dies_of_threes, range(12)))
    assert [one.status for one in found] == ["died" if n % 10 == 3 else "ok" for n in range(12)]
    assert all(
        one.error.startswith("its worker ended, twice; the last at tcp://") for one in found[3::10]
    )


@pytest.mark.slow
def test_what_dies_once_is_done_again(cluster: DaskCluster, tmp_path: Path) -> None:
    items = [(str(tmp_path), number) for number in range(12)]
    found = sorted_of(cluster.run(works.dies_once, items))
    assert found == [Done(number, number, "ok", "") for number in range(12)]


@pytest.mark.slow
def test_a_worker_killed_from_outside(cluster: DaskCluster) -> None:
    run = cluster.run(works.who, [0.02] * 40)
    first = next(run)
    assert first.result is not None
    os.kill(first.result, signal.SIGKILL)
    assert {one.status for one in run} == {"ok"}


@pytest.mark.parametrize("kind", ["lines", "unpicklable error", "wordless", "exit", "surrogate"])
def test_what_is_raised_is_what_a_loop_says(cluster: DaskCluster, kind: str) -> None:
    assert list(cluster.run(works.odd, [kind])) == list(Serial().run(works.odd, [kind]))


def test_items_that_cannot_be_sent(cluster: DaskCluster) -> None:
    items: list[Any] = [lambda: None, 2]
    found = sorted_of(cluster.run(works.square, items))
    assert [one.status for one in found] == ["failed", "ok"]


def test_functions_of_any_place(cluster: DaskCluster) -> None:
    """Also those of a notebook."""
    more = 3
    assert [one.result for one in cluster.run(lambda number: number + more, [4])] == [7]
    held = threading.Lock()
    with pytest.raises(UsageError, match="no worker can be given this function"):
        list(cluster.run(lambda _: held, [1]))


def test_a_run_that_is_left_leaves_nothing(cluster: DaskCluster) -> None:
    run = cluster.run(works.who, [0.05] * 10)
    next(run)
    run.close()  # type: ignore[attr-defined]
    until = time.monotonic() + 5
    while cluster._client.futures and time.monotonic() < until:
        time.sleep(0.01)
    assert not cluster._client.futures


def test_a_client_that_is_given_stays_open(cluster: DaskCluster) -> None:
    with DaskCluster(client=cluster._client) as same:
        assert [one.result for one in same.run(works.square, [3])] == [9]
    # A test before this may have ended a worker: its nanny starts another.
    late = time.monotonic() + 60
    while cluster.workers < 2:
        assert time.monotonic() < late
        time.sleep(0.1)
    assert [one.result for one in cluster.run(works.square, [3])] == [9]


def test_workers_that_do_not_come_back(
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
        MemreplayError, match=r"^the Dask cluster at tcp://\S+ has no workers any more, for \d+ s$"
    ):
        list(left.run(works.who, [1, 1]))


def test_another_version_is_an_error(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__version__", "99.9")
    with pytest.raises(
        MemreplayError, match=r"^a worker of the cluster cannot begin: it has .*, and 99\.9 asks$"
    ):
        list(cluster.run(works.square, [1]))


def test_a_worker_that_cannot_load_the_function() -> None:
    missing = packed(works.square).replace(b"square", b"circle")
    found: Done[Any] = heard(0, called(__version__, missing, packed(1)))
    assert found.error.startswith("AttributeError: ")
    fine = called(__version__, packed(works.square), packed(3))
    assert heard(0, fine) == Done(0, 9, "ok", "")


def test_the_scheduler_loads_nothing_of_ours() -> None:
    """Whoever unpickles the call calls; what holds it is bytes."""
    call = packed(module._Call(packed(works.square), packed(3)))
    named = {argument for _, argument, _ in pickletools.genops(packed((packed, call)))}
    assert "memreplay.workers.running" in named  # a function of ours would be seen
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
    """What was started, and is ended."""

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
def test_a_scheduler_without_memreplay_that_is_killed(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    scheduler = programs.scheduler()
    programs.start(WORKER, "whole")
    with DaskCluster(programs.file) as cluster:
        assert {one.result for one in cluster.run(works.square, [1, 2, 3])} == {1, 4, 9}
        run = cluster.run(works.who, [0.05] * 100)
        next(run)
        scheduler.kill()
        with pytest.raises(MemreplayError, match=r"^the Dask scheduler at tcp://\S+ is gone: .+"):
            list(run)
        with pytest.raises(MemreplayError, match="is gone"):
            _ = cluster.workers
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_workers_without_memreplay(programs: Programs) -> None:
    programs.scheduler()
    programs.start(WORKER, "bare")
    with (
        DaskCluster(programs.file) as cluster,
        pytest.raises(MemreplayError, match=r"^a worker of the cluster has no memreplay \S+: "),
    ):
        list(cluster.run(works.square, [1, 2, 3]))


# --- what is no cluster ---------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["nonsense", "foo://x:1", "tcp://:x"])
def test_what_is_no_address(said: str) -> None:
    with pytest.raises(UsageError, match=r"is no address of a scheduler: .*one is like tcp://"):
        DaskCluster(said)


def test_what_is_no_file_of_a_scheduler(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    with pytest.raises(UsageError, match=r"scheduler\.json: No such file or directory$"):
        DaskCluster(str(file))
    for text in ("[]", "{", "{}"):
        file.write_text(text)
        with pytest.raises(UsageError, match="is no file of a Dask scheduler"):
            DaskCluster(str(file))
    file.write_text(json.dumps({"address": "nonsense"}))
    with pytest.raises(UsageError, match="is no address"):
        DaskCluster(str(file))


def test_nobody_answers() -> None:
    with pytest.raises(
        MemreplayError, match=r"^no Dask scheduler answers at tcp://127\.0\.0\.1:9: "
    ):
        DaskCluster("tcp://127.0.0.1:9", connect_seconds=0.2)


def test_an_address_or_a_client() -> None:
    with pytest.raises(UsageError, match="address of its scheduler, or a client"):
        DaskCluster()
    with pytest.raises(UsageError, match="address of its scheduler, or a client"):
        DaskCluster("tcp://127.0.0.1:9", client=object())


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        MissingExtraError, match=r"^a cluster needs Dask: pip install .* \(the extra 'fleet'\)$"
    ):
        DaskCluster("tcp://127.0.0.1:9")


@pytest.mark.slow
def test_versions_that_differ_are_a_line() -> None:
    from distributed.versions import error_message

    def versions(python: str) -> dict[str, Any]:
        return {"packages": {"python": python, "dask": "1", "msgpack": python}}

    said = error_message(  # type: ignore[no-untyped-call]
        versions("3.11"), {"tcp://a": versions("3.12")}, versions("3.11")
    )
    assert module._one_line(["something", said["warning"]]) == (
        "versions differ between here and the cluster: msgpack, python"
    )
    assert module._one_line(["something"]) == ""
