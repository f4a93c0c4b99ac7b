"""Tests of commands/shared/folders.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.commands.shared.folders import snapshot_files
from memreplay.errors import UsageError


def put(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return str(folder)


def test_natural_order_without_what_is_no_snapshot(tmp_path: Path) -> None:
    folder = put(tmp_path, "rank10.pkl", "rank2.pkl.gz", "log.txt", ".rank3.pkl", "trace.json")
    assert snapshot_files(folder) == ["rank2.pkl.gz", "rank10.pkl"]
    assert snapshot_files(folder + "/") == ["rank2.pkl.gz", "rank10.pkl"]


def test_json_where_there_is_no_pickle(tmp_path: Path) -> None:
    assert snapshot_files(put(tmp_path, "rank0.json", "x.log")) == ["rank0.json"]


def test_nested_only_where_there_is_none_outside(tmp_path: Path) -> None:
    names = ["iteration_10/rank0.pickle", "iteration_10/rank1.pickle", ".git/rank2.pickle"]
    folder = put(tmp_path, *names, "a/b/rank3.pickle")
    assert snapshot_files(folder) == names[:2]
    put(tmp_path, "rank7.pickle")
    assert snapshot_files(folder) == ["rank7.pickle"]


def test_no_regular_files(tmp_path: Path) -> None:
    folder = put(tmp_path, "rank0.pkl")
    os.mkfifo(tmp_path / "rank1.pkl")
    (tmp_path / "rank2.pkl").mkdir()
    (tmp_path / "rank3.pkl").symlink_to("nowhere")
    (tmp_path / "rank4.pkl").symlink_to("rank4.pkl")
    (tmp_path / "rank5.pkl").symlink_to("rank0.pkl")
    assert snapshot_files(folder) == ["rank0.pkl", "rank5.pkl"]


def test_hostile_names(tmp_path: Path) -> None:
    names = ["a\nb\x1b[31m_rank0.pkl", os.fsdecode(b"rank1_\xff\xfe.pkl"), "x" * 240 + "rank2.pkl"]
    folder = put(tmp_path, *names)
    assert sorted(snapshot_files(folder)) == sorted(names)


def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no snapshot in this folder: no name ends in \.pkl"):
        snapshot_files(put(tmp_path, "a.txt", "b/c.txt"))
    with pytest.raises(FileNotFoundError):
        snapshot_files(str(tmp_path / "none"))


def test_a_subfolder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path, "a/rank0.pkl", "b/rank1.pkl")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UsageError, match="the folder b in it cannot be listed: Permission denied"):
        snapshot_files(folder)
