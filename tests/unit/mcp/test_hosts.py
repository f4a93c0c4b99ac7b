"""Processes that hold snapshots for queries: they answer, stop, and survive what queries do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread, Timer

import pytest

from memreplay.errors import UsageError
from memreplay.mcp import calls, hosts, querying
from memreplay.mcp.calls import ReportedError, ToolCall
from memreplay.mcp.hosts import MOST, StoppedError, _Host
from memreplay.mcp.query_host import Order
from tests.hostile_queries.processes import children_of, threads_of, tree_of
from tests.unit.mcp.conftest import LEAKY, Asks, snapshot

ENDLESS = "select count(*) from range(1000000000000)"
ONE = ["1 row", "x", "1"]


@pytest.fixture
def tool_call(asks: Asks, folder: Path) -> ToolCall:
    return asks(folder)


def ask(tool_call: ToolCall, query: str, file: str = "small.pkl") -> list[str]:
    return [line.text for line in tool_call.ask(file, query)]


def host_of(tool_call: ToolCall) -> _Host:
    (host,) = tool_call.hosts._hosts.values()
    return host


def test_tables_and_rows_are_returned(tool_call: ToolCall) -> None:
    assert ask(tool_call, " \n")[0].startswith("events (1 row): device int32, event_index int64")
    assert ask(tool_call, "select 1 as x") == ONE
    assert ask(tool_call, "select count(*) as x from flat") == ONE
    with pytest.raises(ReportedError, match=r"^small\.pkl: SQL: "):
        ask(tool_call, "selekt")


def test_host_has_one_thread_so_that_it_can_fork(tool_call: ToolCall) -> None:
    """Apart from jemalloc's, which expects forks."""
    ask(tool_call, "select count(*) as x from flat")
    names = threads_of(host_of(tool_call)._process.pid)
    assert [name for name in names if name != "jemalloc_bg_thd"] == names[:1]


def test_file_is_read_once_and_again_if_it_changes(tool_call: ToolCall, folder: Path) -> None:
    query = "select count(*) as x from events"
    assert ask(tool_call, query) == ONE
    first = host_of(tool_call)
    assert ask(tool_call, query) == ONE
    assert host_of(tool_call) is first
    (folder / "small.pkl").write_bytes(snapshot(3))
    assert ask(tool_call, query)[2] == "3"
    assert host_of(tool_call) is not first
    assert not first.is_alive()


def test_the_last_files_stay(asks: Asks, tmp_path: Path) -> None:
    tool_call = asks(tmp_path)
    for i in range(MOST + 2):
        (tmp_path / f"{i}.pkl").write_bytes(snapshot(i + 1))
        assert ask(tool_call, "select count(*) from events", f"{i}.pkl")[2] == f"{i + 1}"
    assert len(tool_call.hosts._hosts) == MOST


def test_a_process_is_ready_for_the_first_file(tool_call: ToolCall) -> None:
    tool_call.hosts.get_ready()
    ready = tool_call.hosts._ready
    assert ready is not None
    tool_call.hosts.get_ready()
    assert tool_call.hosts._ready is ready
    assert ask(tool_call, "select 1 as x") == ONE
    assert host_of(tool_call) is ready


def test_unreadable_files_are_an_error(asks: Asks, folder: Path) -> None:
    (folder / "bad.pkl").write_bytes(b"nothing")
    tool_call = asks(folder)
    for _ in range(2):
        with pytest.raises(ReportedError, match=r"^bad\.pkl: "):
            ask(tool_call, "select 1", "bad.pkl")
    assert not tool_call.hosts._hosts
    with pytest.raises(UsageError, match="not allowed"):
        ask(tool_call, "select 1", "/etc/passwd")


def test_stuck_query_blocks_no_other(tool_call: ToolCall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BOUNDS", querying.BOUNDS._replace(seconds=3.0))
    ask(tool_call, "select 1 as x")
    said: list[str] = []

    def stuck() -> None:
        with pytest.raises(ReportedError, match=r"took longer than 3 s") as caught:
            ask(tool_call, ENDLESS)
        said.append(str(caught.value))

    thread = Thread(target=stuck)
    thread.start()
    time.sleep(0.5)
    assert ask(tool_call, "select 1 as x") == ONE
    assert tool_call.about("small.pkl", lambda snapshot: snapshot.file)
    assert thread.is_alive()
    thread.join(20)
    assert said


def test_cancellation_ends_the_query_and_keeps_the_host(
    tool_call: ToolCall, asks: Asks, folder: Path
) -> None:
    ask(tool_call, "select 1 as x")
    host = host_of(tool_call)
    Timer(0.3, tool_call.stop.set).start()
    with pytest.raises(StoppedError):
        ask(tool_call, ENDLESS)
    until = time.monotonic() + 10
    while children_of(host._process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not children_of(host._process.pid)
    tool_call.stop.clear()
    assert ask(tool_call, "select 1 as x") == ONE
    assert host_of(tool_call) is host


def test_cancellation_while_a_file_is_read_ends_the_host(
    asks: Asks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Event()
    stop.set()
    monkeypatch.setattr(hosts, "_LOOK_SECONDS", 0.0)
    tool_call = asks(folder)
    tool_call.stop.set()
    with pytest.raises(StoppedError):
        ask(tool_call, "select 1", f"run/{LEAKY}")
    assert not tool_call.hosts._hosts


def test_call_that_waits_for_a_file_can_be_cancelled(tool_call: ToolCall) -> None:
    ask(tool_call, "select 1 as x")
    host = host_of(tool_call)
    with host.lock:  # as if another call read the file
        Timer(0.3, tool_call.stop.set).start()
        with pytest.raises(StoppedError):
            ask(tool_call, "select 1 as x")
    tool_call.stop.clear()
    assert ask(tool_call, "select 1 as x") == ONE
    assert host_of(tool_call) is host


def test_call_outlives_the_cancelled_one_that_read_its_file(tool_call: ToolCall) -> None:
    ask(tool_call, "select 1 as x")
    host = host_of(tool_call)
    said: list[list[str]] = []
    thread = Thread(target=lambda: said.append(ask(tool_call, "select 1 as x")))
    with host.lock:
        thread.start()
        until = time.monotonic() + 10
        while not host.users and time.monotonic() < until:
            time.sleep(0.05)
        host.opened = None
        (key,) = tool_call.hosts._hosts
        tool_call.hosts._drop(key, host)
    thread.join(60)
    assert said == [ONE]


def test_killed_processes_are_replaced(tool_call: ToolCall) -> None:
    for _ in range(2):
        assert ask(tool_call, "select 1 as x") == ONE
        os.kill(host_of(tool_call)._process.pid, signal.SIGKILL)
        host_of(tool_call)._process.wait()
    Timer(0.5, lambda: os.kill(host_of(tool_call)._process.pid, signal.SIGKILL)).start()
    with pytest.raises(ReportedError, match="the query's process ended; try again"):
        ask(tool_call, ENDLESS)
    assert ask(tool_call, "select 1 as x") == ONE


def test_queries_end_with_the_hosts(tool_call: ToolCall) -> None:
    assert ask(tool_call, "select 1 as x") == ONE
    host = host_of(tool_call)

    def stuck() -> None:
        with pytest.raises(ReportedError):
            ask(tool_call, ENDLESS)

    thread = Thread(target=stuck)
    thread.start()
    running: list[int] = []
    until = time.monotonic() + 20
    while len(running) < 2 and time.monotonic() < until:
        running = tree_of(host._process.pid)[1:]
    assert len(running) == 2
    tool_call.hosts.close()
    thread.join(10)
    until = time.monotonic() + 10
    while any(Path(f"/proc/{one}").exists() for one in running) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{one}").exists() for one in running)


@pytest.fixture
def host() -> Iterator[_Host]:
    made = _Host()
    yield made
    made.end()


def test_opening_takes_bounded_time(
    host: _Host, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "OPEN_SECONDS", 0.0)
    monkeypatch.setattr(hosts, "_LOOK_SECONDS", 0.0)
    order = Order("x", 1, False, (), (), ())
    with (
        open(folder / "small.pkl", "rb") as file,
        pytest.raises(hosts._LostError, match="took longer than 0 s"),
    ):
        host.open(file, order, Event())


def test_missing_duckdb_is_an_error(tool_call: ToolCall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "find_spec", lambda _: None)
    tool_call.hosts.get_ready()
    assert tool_call.hosts._ready is None
