"""Tests of dataset_files.py: the files that a path stands for, and folders of tables that aren't
datasets.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.errors import SnapshotError, UsageError
from memreplay.io.dataset_files import FORMATS, TABLES, find_dataset, rank_folder
from tests import build
from tests.unit.io.test_dataset import export, simple


@pytest.fixture(params=FORMATS)
def fmt(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ranks(tmp_path: Path, fmt: str) -> Path:
    """Create a dataset of ranks 0 and 1."""
    for rank in range(2):
        whole = export(mr.open(build.dump(simple())), tmp_path / f"whole{rank}", fmt)
        for name in TABLES:
            inner = tmp_path / "ds" / name / f"rank={rank}"
            inner.mkdir(parents=True)
            os.rename(whole / f"{name}.{fmt}", inner / f"n{rank}.{fmt}")
    return tmp_path / "ds"


def refused(path: Path, words: str) -> None:
    with pytest.raises(SnapshotError, match=words) as raised:
        mr.open(path)
    assert "\n" not in str(raised.value)


def test_dataset_is_found_in_its_folder(tmp_path: Path) -> None:
    snap = mr.open(build.dump(simple()))
    assert find_dataset(tmp_path) is None
    found = find_dataset(export(snap, tmp_path, "parquet"))
    assert found is not None
    assert (found.fmt, found.twin) == ("parquet", None)
    assert found.paths == {name: str(tmp_path / f"{name}.parquet") for name in TABLES}
    found = find_dataset(export(snap, tmp_path, "arrow"))
    assert found is not None
    assert (found.fmt, found.twin) == ("arrow", str(tmp_path / "events.parquet"))
    for other in (b"x", 3, None, tmp_path / "nothing.arrow", tmp_path.parent):
        assert find_dataset(other) is None
    with pytest.raises(IsADirectoryError):
        mr.open(tmp_path.parent)
    with pytest.raises(UsageError, match="no device 7"):
        mr.open(tmp_path, device=7)


def test_table_stands_for_its_folder(
    tmp_path: Path, fmt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export(mr.open(build.dump(simple())), tmp_path / "tables", fmt)
    (folder / f"usage.{fmt}").write_bytes(b"")  # not read
    for name in ("events", "stacks", "usage"):
        assert mr.open(folder / f"{name}.{fmt}").native.n_events == 4
    monkeypatch.chdir(folder)
    assert mr.open(f"events.{fmt}").native.n_events == 4
    (folder / f"frames.{fmt}").unlink()
    refused(
        folder / f"events.{fmt}", rf"frames\.{fmt} is missing from the folder; a dataset has fr"
    )


def test_lone_table_is_not_a_dataset(tmp_path: Path, fmt: str) -> None:
    folder = export(mr.open(build.dump(simple())), tmp_path / "tables", fmt)
    os.rename(folder / f"events.{fmt}", tmp_path / f"mine.{fmt}")
    refused(tmp_path / f"mine.{fmt}", "not a memory snapshot, but an? (Arrow|Parquet) file")
    refused(folder, rf"events\.{fmt} is missing from the folder")


def test_snapshot_may_be_named_like_a_table(tmp_path: Path) -> None:
    for name in ("events.pkl", "snap.arrow"):
        (tmp_path / name).write_bytes(build.dump(simple()))
        assert mr.open(tmp_path / name).native.n_events == 4


@pytest.mark.parametrize("ending", ["csv", "ndjson", "json"])
def test_line_tables_are_not_read_back(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"events.{ending}").write_bytes(b"")
    with pytest.raises(IsADirectoryError):
        mr.open(tmp_path)
    (tmp_path / f"stacks.{ending}").write_bytes(b"")
    refused(
        tmp_path, f"the tables in the folder are {ending}, but only parquet and arrow can be read"
    )


def test_any_table_of_a_rank_stands_for_its_dataset(
    ranks: Path, fmt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in ("events/rank=1", "usage/rank=1", f"stacks/rank=1/n1.{fmt}"):
        (ranks / "usage" / "rank=1").mkdir(parents=True, exist_ok=True)
        (ranks / "usage" / "rank=1" / f"n1.{fmt}").write_bytes(b"")
        found = find_dataset(ranks / one)
        assert found is not None
        assert found.paths == {name: str(ranks / name / "rank=1" / f"n1.{fmt}") for name in TABLES}
        assert mr.open(ranks / one).native.n_events == 4
    monkeypatch.chdir(ranks / "events" / "rank=0")
    assert mr.open(".").native.n_events == mr.open(f"n0.{fmt}").native.n_events == 4
    for none in ("events/rank=x", "events/rank=2", "other/rank=0"):
        (ranks / none).mkdir(parents=True)
        assert find_dataset(ranks / none) is None


def test_folder_of_ranks_is_refused_unless_one_is_chosen(ranks: Path) -> None:
    refused(
        ranks, r"holds tables of several ranks; pass the folder of one rank: .*ds/events/rank=0$"
    )
    refused(ranks / "events", r"several ranks; pass the folder of one rank: .*ds/events/rank=0$")


def test_rank_with_two_snapshots_requires_choosing_one_file(ranks: Path, fmt: str) -> None:
    (ranks / "events" / "rank=0" / f"a.{fmt}").write_bytes(b"")
    refused(ranks / "events" / "rank=0", rf"of several snapshots: a\.{fmt}, n0\.{fmt}; pass a file")
    assert mr.open(ranks / "events" / "rank=0" / f"n0.{fmt}").native.n_events == 4


def test_folder_that_also_contains_ranks_is_refused(tmp_path: Path) -> None:
    folder = export(mr.open(build.dump(simple())), tmp_path / "tables", "parquet")
    (folder / "events" / "mine").mkdir(parents=True)
    (folder / "usage").mkdir()
    assert rank_folder(str(folder)) is None
    assert mr.open(folder).native.n_events
    (folder / "stacks" / "rank=0").mkdir(parents=True)
    assert rank_folder(str(folder)) == "stacks/rank=0"
    refused(folder, r"tables of one snapshot and, in stacks/rank=0, of")
