"""Tests of commands/shared/folders.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.commands.app import app
from memreplay.commands.shared.folders import rank_files, snapshot_files
from memreplay.errors import UsageError
from memreplay.io.listing import listed
from tests.commanding import command_runner
from tests.conftest import ROOT


def put(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return str(folder)


def test_only_snapshots_are_listed_in_natural_order(tmp_path: Path) -> None:
    folder = put(tmp_path, "rank10.pkl", "rank2.pkl.gz", "log.txt", ".rank3.pkl", "trace.json")
    assert snapshot_files(folder) == ["rank2.pkl.gz", "rank10.pkl"]
    assert snapshot_files(folder + "/") == ["rank2.pkl.gz", "rank10.pkl"]


def test_json_files_are_listed_if_there_is_no_pickle(tmp_path: Path) -> None:
    assert snapshot_files(put(tmp_path, "rank0.json", "x.log")) == ["rank0.json"]


def test_subfolders_are_read_only_if_the_folder_has_no_snapshots(tmp_path: Path) -> None:
    names = ["iteration_10/rank0.pickle", "iteration_10/rank1.pickle", ".git/rank2.pickle"]
    folder = put(tmp_path, *names, "a/b/rank3.pickle")
    assert snapshot_files(folder) == names[:2]
    put(tmp_path, "rank7.pickle")
    assert snapshot_files(folder) == ["rank7.pickle"]


def test_snapshots_in_the_nearest_subfolders_are_listed(tmp_path: Path) -> None:
    """For example, torchtitan's dumps are listed, with names relative to its output folder."""
    deep = [f"profiling/memory_snapshot/iteration_{step}/rank0.pickle" for step in (9, 10)]
    folder = put(tmp_path, *deep, "profiling/a/b/c/rank1.pickle", "logs/a.txt")
    assert snapshot_files(folder) == deep
    with pytest.raises(UsageError, match="no snapshot in this folder"):
        snapshot_files(put(tmp_path / "other", "1/2/3/4/5/rank0.pickle"))


def test_newer_dumps_below_older_ones_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = put(tmp_path, "rank0.pkl", "rank1.pkl", "notes.pkl", "log/a.txt")
    files = {rank: f"{folder}/rank{rank}.pkl" for rank in (0, 1)}
    assert rank_files(folder) == (files, (f"{folder}/notes.pkl",))
    assert capsys.readouterr().err == ""
    put(tmp_path, "step_5/rank0.pkl", "step_10/rank0.pkl", "step_5/trace.json")
    assert rank_files(folder)[0] == files
    assert capsys.readouterr().err == (
        f"memreplay: {folder}: 2 snapshots in subfolders left out (step_5/rank0.pkl); give that"
        " folder to read them\n"
    )


PAGE = b"<!DOCTYPE html>\n<html><script>add([{'name': 'a', \"base64\": \"gASV\"}])</script>"


def test_pages_are_recognized_by_content(tmp_path: Path) -> None:
    folder = put(tmp_path, "report.html", "notes.htm")
    (tmp_path / "rank0.html").write_bytes(PAGE)
    (tmp_path / "own.html").write_bytes(
        b'<!doctype html><meta name="generator" content="memreplay 1.0">' + PAGE
    )
    os.mkfifo(tmp_path / "pipe.html")
    assert snapshot_files(folder) == ["rank0.html"]
    assert [one.name for one in listed([folder])] == ["rank0.html"]
    # Composer and TorchTNT write two pages next to each snapshot.
    (tmp_path / "rank1.oom_trace_plot.html").write_bytes(PAGE)
    (tmp_path / "rank1.oom_segment_plot.html").write_bytes(PAGE)
    assert snapshot_files(folder) == ["rank0.html", "rank1.oom_trace_plot.html"]
    put(tmp_path, "rank1.oom_snapshot.pickle")
    assert snapshot_files(folder) == ["rank1.oom_snapshot.pickle"]
    assert [one.name for one in listed([folder])] == ["rank1.oom_snapshot.pickle"]


def test_memreplays_own_pages_are_ignored(tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "two_gpus.pkl.gz")
    done = command_runner().invoke(app, ["export", example, "-o", str(tmp_path / "a.html")])
    assert done.exit_code == 0, done.output
    with pytest.raises(UsageError, match="no snapshot in this folder"):
        snapshot_files(str(tmp_path))
    with pytest.raises(UsageError, match="no snapshot in this folder"):
        listed([str(tmp_path)])


def test_irregular_files_are_ignored(tmp_path: Path) -> None:
    folder = put(tmp_path, "rank0.pkl")
    os.mkfifo(tmp_path / "rank1.pkl")
    (tmp_path / "rank2.pkl").mkdir()
    (tmp_path / "rank3.pkl").symlink_to("nowhere")
    (tmp_path / "rank4.pkl").symlink_to("rank4.pkl")
    (tmp_path / "rank5.pkl").symlink_to("rank0.pkl")
    assert snapshot_files(folder) == ["rank0.pkl", "rank5.pkl"]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_error_if_all_files_are_irregular(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "rank1.pkl")
    else:
        (tmp_path / "rank1.pkl").symlink_to("nowhere")
    (tmp_path / "rank0.pkl").mkdir()
    put(tmp_path, ".hidden.pkl")
    words = "no snapshot in this folder: rank1.pkl is a pipe, a device or a broken link"
    for find in (snapshot_files, lambda folder: listed([folder])):
        with pytest.raises(UsageError, match=words):
            find(str(tmp_path))


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    names = ["a\nb\x1b[31m_rank0.pkl", os.fsdecode(b"rank1_\xff\xfe.pkl"), "x" * 240 + "rank2.pkl"]
    folder = put(tmp_path, *names)
    assert sorted(snapshot_files(folder)) == sorted(names)


def test_folder_without_snapshots_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no snapshot in this folder: no name ends in \.pkl"):
        snapshot_files(put(tmp_path, "a.txt", "b/c.txt"))
    with pytest.raises(FileNotFoundError):
        snapshot_files(str(tmp_path / "none"))


def test_unlistable_subfolder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path, "a/rank0.pkl", "b/rank1.pkl")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("/b"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UsageError, match="can't list its folder b: Permission denied"):
        snapshot_files(folder)
