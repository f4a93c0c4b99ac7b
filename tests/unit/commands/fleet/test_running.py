"""running: rows from workers that succeed or fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.app import app
from memreplay.commands.fleet import running
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.fleet.tasks import read_rank
from memreplay.commands.shared.source import Reading
from memreplay.fleets.result import FleetReport
from memreplay.fleets.text import fleet_document
from memreplay.io.listing import Listed
from memreplay.render.plain import render_plain
from memreplay.workers.running import Done
from tests.commanding import command_runner
from tests.conftest import ROOT
from tests.layouts import refuse_folder

FOLDER = str(ROOT / "examples" / "fsdp_ranks")


class Serial:
    """An executor that runs items one by one, the last first. Items in `failing` give no result."""

    workers = 1

    def __init__(self, failing: dict[int, Any] | None = None) -> None:
        self.failing = failing or {}
        self.closed = False

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Done[Any]]:
        for index in reversed(range(len(items))):
            if index in self.failing and work is read_rank:
                yield Done(index, None, self.failing[index], "words")
            else:
                yield Done(index, work(items[index]), "ok", "")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def serial(monkeypatch: pytest.MonkeyPatch) -> Serial:
    found = Serial()
    monkeypatch.setattr(running, "executor_of", lambda *_: found)
    return found


def ran(*sources: str, **asked: Any) -> FleetReport:
    return run_fleet(Fleet(sources=sources, **asked), Reading(), Selection())


def test_rows_are_ordered_by_rank(serial: Serial) -> None:
    found = ran(FOLDER)
    assert [one.rank for one in found.ranks] == [0, 1, 2, 3]
    assert [Path(one.file).name for one in found.ranks] == [f"rank{n}.pkl.gz" for n in range(4)]
    assert (found.input, found.rank_source, found.file_count, found.read_count) == (
        FOLDER,
        "names",
        4,
        4,
    )
    (odd,) = found.outliers
    assert (odd.rank, bool(odd.rows), odd.error) == (3, True, None)
    assert serial.closed


def test_remote_workers_find_the_files(serial: Serial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files keep their given names, but can be opened from any folder."""
    monkeypatch.chdir(ROOT)
    named = str(Path(FOLDER).relative_to(ROOT))
    run = Serial.run

    def elsewhere(self: Serial, work: Any, items: Any) -> Iterator[Done[Any]]:
        with monkeypatch.context() as moved:
            moved.chdir("/")
            yield from list(run(self, work, items))

    monkeypatch.setattr(Serial, "run", elsewhere)
    found = ran(named)
    assert [one.file for one in found.ranks] == [f"{named}/rank{n}.pkl.gz" for n in range(4)]
    assert (found.read_count, bool(found.outliers[0].rows)) == (4, True)


def test_status_says_how_a_worker_failed(serial: Serial) -> None:
    serial.failing = {0: "memory", 1: "died", 2: "failed"}
    found = ran(FOLDER)
    assert [one.status for one in found.ranks] == ["memory", "died", "unreadable", "ok"]
    assert all("words" in (one.error or "") for one in found.ranks[:3])
    assert found.read_count == 1


def test_pattern_finds_the_ranks(serial: Serial) -> None:
    found = ran(FOLDER, rank_pattern=r"rank(\d)")
    assert (found.rank_source, [one.rank for one in found.ranks]) == ("pattern", [0, 1, 2, 3])
    with pytest.raises(
        mr.UsageError, match="--rank-pattern needs exactly one group for the rank, as in 'gpu"
    ):
        ran(FOLDER, rank_pattern="rank")


def put_dumps(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{FOLDER}/rank1.pkl.gz", folder / name)
    return str(folder)


def shown(report: FleetReport) -> str:
    return render_plain(fleet_document(report), width=200)


def test_dumps_of_different_steps_are_reported(serial: Serial, tmp_path: Path) -> None:
    names = [f"step_{step}/rank{rank}.pkl.gz" for step in (9, 10) for rank in (0, 1)]
    folder = put_dumps(tmp_path, *names[:3])
    found = ran(folder)
    assert found.different_steps == "step_10 of rank 0, step_9 of rank 1"
    assert "--dump step_9 chooses the newest that all have" in found.dumps_choice
    words = "warning: the ranks were dumped at different steps: step_10 of rank 0, step_9 of rank 1"
    assert words in shown(found)
    for one in (ran(folder, dump="step_9"), ran(put_dumps(tmp_path, names[3]))):
        assert one.different_steps == ""
        assert "different steps" not in shown(one)


def test_last_rank_may_lack_the_dump(serial: Serial, tmp_path: Path) -> None:
    names = [f"step_{step}/rank{rank}.pkl.gz" for step in (9, 10) for rank in (0, 1)]
    folder = put_dumps(tmp_path, *names, "step_9/rank2.pkl.gz")
    assert ran(folder, dump="step_10").missing_ranks == (2,)
    assert ran(folder, dump="step_9").missing_ranks == ()


def test_unlistable_folder_is_reported(
    serial: Serial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put_dumps(tmp_path, "a/rank0.pkl.gz", "b/rank1.pkl.gz")
    assert (ran(folder).trusted, ran(folder).unlisted_folders) == (True, ())
    refuse_folder(monkeypatch, "b")
    found = ran(folder)
    (one,) = found.unlisted_folders
    assert (one.folder, one.reason) == (f"{folder}/b", "permission denied")
    assert (found.read_count, found.trusted) == (1, False)
    assert f"warning: {folder}/b: the folder cannot be listed: permission denied; skipped" in (
        shown(found)
    )
    done = command_runner().invoke(app, ["fleet", folder])
    assert done.exit_code == 3


def test_fleet_can_be_compared_with_another(serial: Serial, tmp_path: Path) -> None:
    for number in range(4):
        shutil.copy(f"{FOLDER}/rank1.pkl.gz", tmp_path / f"rank{number}.pkl.gz")
    found = ran(FOLDER, base=(str(tmp_path),)).against
    assert found is not None
    assert (found.input, found.only_base, found.only_new) == (str(tmp_path), (), ())
    assert (found.ranks[0].rank, found.told_rank, bool(found.rows)) == (3, 3, True)
    assert ran(FOLDER).against is None


def test_progress_counts_the_files(serial: Serial) -> None:
    seen: list[int] = []

    def watching(done: Iterator[Done[Any]], files: int) -> Iterator[Done[Any]]:
        for one in done:
            seen.append(files)
            yield one

    run_fleet(Fleet(sources=(FOLDER,)), Reading(), Selection(), watching)
    assert seen == [4] * 4


def test_files_that_differ_only_in_a_secret_are_distinguished(
    serial: Serial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets in URLs aren't shown, but the two are different files."""
    urls = [f"https://ana:pass@host/get?rank={number}&sig=s3cret" for number in range(4)]
    told: list[Any] = []

    class Telling(Serial):
        def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Done[Any]]:
            if work is read_rank:
                items = [
                    replace(one, file=f"{FOLDER}/rank{n}.pkl.gz") for n, one in enumerate(items)
                ]
            else:
                told.extend(items)
                items = []
            return super().run(work, items)

    monkeypatch.setattr(running, "executor_of", lambda *_: Telling())
    monkeypatch.setattr(
        running,
        "_listed",
        lambda *_: [Listed(f"get#{n}", url, 9, "") for n, url in enumerate(urls)],
    )
    report = ran(*urls)
    text = msgspec.json.encode(report).decode()
    assert "pass" not in text
    assert "s3cret" not in text
    assert [one.file for one in report.ranks] == [f"https://host/get#{n}" for n in range(4)]
    (pair,) = told
    assert (pair.pair.base, pair.pair.new) == (urls[1], urls[3])
    assert ran(*urls, base=tuple(urls)).against.input == report.input  # type: ignore[union-attr]
