"""dataset: write the tables of all ranks, skipping finished ones."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fleet import dataset, running
from memreplay.commands.fleet.dataset import chosen_tables
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.source import Reading
from memreplay.export.tables.schema import TABLES
from memreplay.fleets.result import FleetReport
from memreplay.workers.running import Done
from memreplay.workers.serial import Serial
from tests.conftest import ROOT

pq = pytest.importorskip("pyarrow.parquet")

EXAMPLE = ROOT / "examples" / "fsdp_ranks"


class Counting(Serial):
    """A loop that counts the items it is given."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Done[Any]]:
        self.given += [Path(item.file).name for item in items if hasattr(item, "part")]
        return super().run(work, items)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(EXAMPLE, folder)
    return folder


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    found = Counting()
    monkeypatch.setattr(running, "executor_of", lambda *_: found)
    return found


def ran(source: Path, out: Path, **asked: Any) -> FleetReport:
    return run_fleet(
        Fleet(sources=(str(source),), output=str(out), **asked), Reading(), Selection()
    )


def whole(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "_memreplay" / "fleet.json").read_text())
    return found


def test_tables_match_export(run: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    report = ran(run, out)
    assert report == run_fleet(Fleet(sources=(str(run),)), Reading(), Selection())
    said = whole(out)
    assert (said["schema"], said["complete"], said["missing"]) == (
        "memreplay.fleet_dataset/1",
        True,
        {},
    )
    assert said["ranks"] == [0, 1, 2, 3]
    for name in TABLES:
        rows = 0
        for rank in range(4):
            (file,) = (out / name / f"rank={rank}").iterdir()
            assert file.name == f"rank{rank}.parquet"
            found = pq.read_table(file)
            with mr.open(run / f"rank{rank}.pkl.gz") as snap:
                assert found.num_rows == mr.table(snap, name).rows
            if name != "frames":  # this table has the source file's name
                assert set(found["file"].to_pylist()) <= {f"rank{rank}.pkl.gz"}
            rows += found.num_rows
        assert said["rows"][name] == rows


def test_dataset_reads_back(run: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    ran(run, out)
    for rank in range(4):
        again = mr.open(out / "events" / f"rank={rank}")
        snap = mr.open(run / f"rank{rank}.pkl.gz")
        for device in snap.devices:
            assert again.replay(device).peak == snap.replay(device).peak


def test_existing_ranks_are_not_read_again(run: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    first = ran(run, out, tables="usage")
    assert len(counting.given) == 4
    assert ran(run, out, tables="usage") == first
    assert len(counting.given) == 4
    os.utime(run / "rank2.pkl.gz", (1, 1))  # a changed time may mean another file
    ran(run, out, tables="usage")
    assert counting.given[4:] == ["rank2.pkl.gz"]
    ran(run, out, tables="usage,blocks")
    assert len(counting.given) == 9
    assert sorted(one.name for one in out.iterdir()) == ["_memreplay", "blocks", "usage"]


def test_interrupted_run_continues(
    run: Path, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank is done once its note exists. A killed worker's leftovers are removed."""
    out = tmp_path / "ds"
    write = dataset._write

    def killed(snap: Any, part: Any, *rest: Any) -> None:
        if part.rank == 2:
            raise SystemExit("killed")
        write(snap, part, *rest)

    monkeypatch.setattr(dataset, "_write", killed)
    ran(run, out, tables="usage")
    assert not whole(out)["complete"]
    assert list(whole(out)["missing"]) == ["2"]
    (out / "usage" / "rank=2").mkdir(parents=True)
    (out / "usage" / "rank=2" / ".rank2.part").write_bytes(b"half")
    (out / "_memreplay" / "fleet.json.0123.part").write_bytes(b"half")
    monkeypatch.setattr(dataset, "_write", write)
    ran(run, out, tables="usage")
    assert not [name for name in os.listdir(out / "_memreplay") if name.endswith(".part")]
    assert counting.given[4:] == ["rank2.pkl.gz"]
    assert (whole(out)["complete"], whole(out)["ranks"]) == (True, [0, 1, 2, 3])
    assert [one.name for one in (out / "usage" / "rank=2").iterdir()] == ["rank2.parquet"]


def test_unreadable_rank_is_missing(
    run: Path, counting: Counting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ds"
    ran(run, out, tables="usage")
    (run / "rank1.pkl.gz").write_bytes(b"nothing")
    report = ran(run, out, tables="usage")
    assert report.read_count == 3
    assert list(whole(out)["missing"]) == ["1"]
    assert whole(out)["ranks"] == [0, 2, 3]
    assert not (out / "usage" / "rank=1").exists()
    assert " is incomplete: rank 1 missing" in capsys.readouterr().err


def test_full_disk_is_reported(
    run: Path, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "ds"
    monkeypatch.setattr("memreplay.export.tables.parquet.write_parquet", full)
    report = ran(run, out, tables="usage")
    assert {one.status for one in report.ranks} == {"unreadable"}
    assert "couldn't be written: no space left on device" in (report.ranks[0].error or "")
    assert not (out / "usage" / "rank=0").exists()


def test_ranks_of_another_fleet_are_rejected(run: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    ran(run, out, tables="usage")
    (run / "rank3.pkl.gz").unlink()
    with pytest.raises(
        mr.UsageError,
        match="has rank 3, which this fleet doesn't have; --force removes the data of other fleets",
    ):
        ran(run, out, tables="usage")
    ran(run, out, tables="usage", force=True)
    assert whole(out)["ranks"] == [0, 1, 2]
    assert not (out / "usage" / "rank=3").exists()


def test_invalid_dataset_folders_are_rejected(
    run: Path, counting: Counting, tmp_path: Path
) -> None:
    with pytest.raises(mr.UsageError, match="isn't a fleet dataset; choose another folder"):
        ran(run, run)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(mr.UsageError, match="is a file"):
        ran(run, file)
    for number in range(4):
        (run / f"rank{number}.pkl.gz").rename(run / f"{'abcd'[number]}.pkl.gz")
    with pytest.raises(mr.UsageError, match="the file names have no rank"):
        ran(run, tmp_path / "ds")


def test_unknown_table_is_an_error() -> None:
    assert chosen_tables(None) == tuple(TABLES)
    assert chosen_tables("usage, events,usage") == ("usage", "events")
    with pytest.raises(mr.UsageError, match="unknown table 'memory'"):
        chosen_tables("usage,memory")


def test_table_names_suit_their_readers(run: Path, counting: Counting, tmp_path: Path) -> None:
    """Readers skip names that start with `_`, and a file's name might not be valid Unicode."""
    names = [b"_rank0", b"\xff\x1b[31m\n_rank1", b"x=*_rank2", b"l" * 230 + b"_rank3"]
    for number, name in enumerate(names):
        os.rename(run / f"rank{number}.pkl.gz", os.fsencode(run) + b"/" + name + b".pkl.gz")
    out = tmp_path / "ds"
    report = ran(run, out, tables="usage")
    assert report.read_count == 4
    assert whole(out)["complete"]
    made = [one.name for rank in range(4) for one in (out / "usage" / f"rank={rank}").iterdir()]
    assert made[:3] == ["rank0.parquet", "31m__rank1.parquet", "x___rank2.parquet"]
    assert len(made[3]) < 100
    found = importorskip_dataset().dataset(out / "usage", partitioning="hive").to_table()
    assert found.num_rows == whole(out)["rows"]["usage"]
    assert set(found["rank"].to_pylist()) == {0, 1, 2, 3}
    assert sorted(one.name for one in (out / "_memreplay").iterdir()) == [
        "fleet.json",
        "lock",
        *(f"rank={rank}.json" for rank in range(4)),
    ]
    assert ran(run, out, tables="usage") == report
    assert len(counting.given) == 4


def importorskip_dataset() -> Any:
    return pytest.importorskip("pyarrow.dataset")


def test_damaged_rank_is_read_again(run: Path, counting: Counting, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    ran(run, out, tables="usage")
    file = out / "usage" / "rank=1" / "rank1.parquet"
    good = file.read_bytes()
    file.write_bytes(good[:-1])
    notes = out / "_memreplay"
    (notes / "rank=0.json").write_text("[" * 200_000)
    (notes / "rank=2.json").write_text('{"key": 7}')
    (notes / "rank=3.json").unlink()
    os.mkfifo(notes / "rank=3.json")
    ran(run, out, tables="usage")
    assert sorted(counting.given[4:]) == [f"rank{number}.pkl.gz" for number in range(4)]
    assert file.read_bytes() == good


def test_files_of_another_fleet_are_read_again(
    run: Path, counting: Counting, tmp_path: Path
) -> None:
    """Files are read again even if their names, sizes and times are the same."""
    for number in range(4):
        path = run / f"rank{number}.pkl.gz"
        path.write_bytes((EXAMPLE / "rank0.pkl.gz").read_bytes())
        os.utime(path, (1, 1))
    out, other = tmp_path / "ds", tmp_path / "other"
    ran(run, out, tables="usage")
    shutil.copytree(run, other)  # keeps the times
    ran(other, out, tables="usage")
    assert len(counting.given) == 8
    (other / "rank2.pkl.gz").write_bytes((EXAMPLE / "rank0.pkl.gz").read_bytes())
    os.utime(other / "rank2.pkl.gz", (1, 1))
    ran(other, out, tables="usage")
    assert counting.given[8:] == ["rank2.pkl.gz"]


def test_dataset_is_incomplete_until_finished(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, a run ended in the middle, or a worker produced nothing."""

    class Ending(Serial):
        def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Done[Any]]:
            for count, one in enumerate(super().run(work, items)):
                if count == 1:
                    raise KeyboardInterrupt
                yield one

    class Elsewhere(Counting):
        """An executor that claims to be done, but wrote its files on another machine."""

        def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Done[Any]]:
            yield from super().run(work, items)
            shutil.rmtree(out / "usage" / "rank=3", ignore_errors=True)

    out = tmp_path / "ds"
    monkeypatch.setattr(running, "executor_of", lambda *_: Counting())
    ran(run, out, tables="usage")
    assert whole(out)["complete"]
    for path in run.iterdir():
        os.utime(path, (5, 5))
    monkeypatch.setattr(running, "executor_of", lambda *_: Ending())
    with pytest.raises(KeyboardInterrupt):
        ran(run, out, tables="usage")
    said = whole(out)
    assert (said["complete"], said["ranks"], list(said["missing"])) == (False, [], list("0123"))
    monkeypatch.setattr(running, "executor_of", lambda *_: Elsewhere())
    ran(run, out, tables="usage")
    said = whole(out)
    assert (said["complete"], said["ranks"], list(said["missing"])) == (False, [0, 1, 2], ["3"])
    assert "its tables are missing" in said["missing"]["3"]
    assert not (out / "_memreplay" / "rank=3.json").exists()


def test_leftovers_of_a_killed_run_are_removed(
    run: Path, counting: Counting, tmp_path: Path
) -> None:
    """A table without a note is removed, because readers would read it."""
    out = tmp_path / "ds"
    ran(run, out, tables="usage")
    shutil.copytree(out / "usage" / "rank=3", out / "usage" / "rank=9")
    (out / "_memreplay" / "parts" / "abc").mkdir(parents=True)
    with pytest.raises(
        mr.UsageError,
        match="has rank 9, which this fleet doesn't have; --force removes the data of other fleets",
    ):
        ran(run, out, tables="usage")
    ran(run, out, tables="usage", force=True)
    assert not (out / "usage" / "rank=9").exists()
    assert not list((out / "_memreplay" / "parts").glob("*"))
    # Other folders are left alone.
    (out / "usage" / "rank=007").mkdir()
    ran(run, out, tables="usage")
    assert (out / "usage" / "rank=007").exists()


def test_names_in_files_need_not_be_unicode(run: Path, counting: Counting, tmp_path: Path) -> None:
    """Frames of C code may contain any bytes. A later run reports the same text."""
    with gzip.open(run / "rank0.pkl.gz") as file:
        made = pickle.load(file)
    for trace in made["device_traces"]:
        for event in trace:
            for frame in event.get("frames", ()):
                frame["filename"] = f"\udcff{frame['filename']}"
    (run / "rank0.pkl.gz").write_bytes(gzip.compress(pickle.dumps(made)))
    out = tmp_path / "ds"
    first = ran(run, out, tables="usage,frames")
    assert whole(out)["complete"]
    assert any("\udcff" in one.label for one in first.ranks[0].devices[0].holders)
    assert ran(run, out, tables="usage,frames") == first
    assert len(counting.given) == 4


@pytest.mark.slow
def test_memory_for_writing_does_not_count_as_a_files_memory(run: Path, tmp_path: Path) -> None:
    workers = Workers(1, 64 << 20)
    report = ran(run, tmp_path / "ds", tables="usage", readers=workers)
    assert [(one.status, one.error) for one in report.ranks] == [("ok", None)] * 4


def test_only_one_run_at_a_time_is_allowed(
    run: Path, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    out = tmp_path / "ds"
    ran(run, out, tables="usage")
    with open(out / "_memreplay" / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(mr.UsageError, match="another run is writing to"):
            ran(run, out, tables="usage")

    def none(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    assert ran(run, out, tables="usage").read_count == 4


def test_read_only_folder_is_an_error_before_reading(
    run: Path, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is read before the error."""

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "makedirs", refused)
    with pytest.raises(mr.UsageError, match="ds can't be written: read-only file system"):
        ran(run, tmp_path / "ds")
    assert not counting.given


def test_files_without_a_rank_are_named(
    run: Path, counting: Counting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(run / "rank0.pkl.gz", run / "driver.pkl.gz")
    ran(run, tmp_path / "ds", tables="usage")
    assert "no rank in the file name driver.pkl.gz, so not in" in capsys.readouterr().err
