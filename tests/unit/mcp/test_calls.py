"""Errors are worded as on the command line; a cancelled call stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from memreplay.commands.app import app
from memreplay.commands.shared.config import ConfigChoice
from memreplay.errors import MemreplayError, UsageError
from memreplay.mcp.cache import Kept
from memreplay.mcp.calls import ReportedError
from memreplay.mcp.hosts import StoppedError
from memreplay.snapshot.snapshot import Snapshot
from tests.unit.mcp.conftest import LEAKY, Asks, snapshot


def events(snap: Snapshot) -> int:
    return snap.native.n_events


def test_snapshot_is_queried_and_kept(asks: Asks, folder: Path) -> None:
    kept = Kept()
    found = [asks(folder, kept=kept).about("small.pkl", lambda snap: snap) for _ in range(2)]
    assert found[0] is found[1]
    assert found[0].file == "small.pkl"
    assert found[0].file_bytes == (folder / "small.pkl").stat().st_size


def test_replaced_file_is_read_again(asks: Asks, folder: Path) -> None:
    kept = Kept()
    asking = asks(folder, kept=kept)
    for count in (1, 2, 5):
        (folder / "small.pkl").write_bytes(snapshot(count))
        assert asking.about("small.pkl", events) == count


def test_two_snapshots_are_passed_in_order(asks: Asks, folder: Path) -> None:
    (folder / "other.pkl").write_bytes(snapshot(3))
    asking = asks(folder)
    both = asking.about_two("small.pkl", "other.pkl", lambda a, b: (events(a), events(b)))
    assert both == (1, 3)
    assert asking.about_two("small.pkl", "small.pkl", lambda a, b: a is b)


BROKEN = {
    "empty": b"",
    "text": b"no snapshot at all",
    "cut": snapshot(50)[:-200],
    "evil": b"cos\nsystem\n(S'true'\ntR.",
    "zip": b"PK\x03\x04" + b"\0" * 40,
    "gzip": b"\x1f\x8b\x08\x00" + b"\xff" * 30,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_errors_match_the_command_line(
    kind: str, asks: Asks, folder: Path, runner: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bad.pkl").write_bytes(BROKEN[kind])
    with pytest.raises(ReportedError) as caught:
        asks(folder).about("bad.pkl", events)
    monkeypatch.chdir(folder)
    result = runner.invoke(app, ["summary", "bad.pkl"])
    assert result.exit_code in (3, 4)
    assert result.stderr == f"memreplay: error: {caught.value}\n"


def test_truncated_file_can_be_salvaged(asks: Asks, folder: Path) -> None:
    (folder / "bad.pkl").write_bytes(BROKEN["cut"])
    assert asks(folder).about("bad.pkl", events, salvage=True) > 10


def test_error_in_a_query_names_the_file(asks: Asks, folder: Path) -> None:
    def work(_snap: Snapshot) -> None:
        raise UsageError("no device 7")

    with pytest.raises(ReportedError, match=r"^small\.pkl: no device 7$"):
        asks(folder).about("small.pkl", work)

    def compare(_base: Snapshot, _new: Snapshot) -> None:
        raise UsageError("no device in common")

    with pytest.raises(ReportedError, match=r"^no device in common$"):
        asks(folder).about_two("small.pkl", "small.pkl", compare)


def test_limits_of_the_server_apply(asks: Asks, folder: Path) -> None:
    with pytest.raises(ReportedError, match="limit"):
        asks(folder, limits=(("rows", 10),)).about(f"run/{LEAKY}", events)


def test_projects_of_the_server_apply(asks: Asks, folder: Path) -> None:
    asking = asks(folder, config=ConfigChoice(folders=("/home/a",)))
    assert asking.about("small.pkl", lambda snap: snap.project) == ("/home/a",)


def test_cancelled_call_reads_nothing(asks: Asks, folder: Path) -> None:
    asking = asks(folder)
    asking.stop.set()
    with pytest.raises(StoppedError):
        asking.about("small.pkl", events)
    with pytest.raises(StoppedError):
        asking.about_two("small.pkl", "small.pkl", lambda a, b: None)
    assert not issubclass(StoppedError, MemreplayError)


def test_reading_stops_when_all_callers_cancel(asks: Asks, folder: Path) -> None:
    asking = asks(folder)
    reads = 0

    class Stops:
        """A stop signal that is set once reading has started."""

        def is_set(self) -> bool:
            nonlocal reads
            reads += 1
            return reads > 2

    from msgspec.structs import replace

    stopped = replace(asking, stop=Stops())
    with pytest.raises(StoppedError):
        stopped.about(f"run/{LEAKY}", events)
    # Nothing from it is cached.
    assert asking.about(f"run/{LEAKY}", events) == 23_182
