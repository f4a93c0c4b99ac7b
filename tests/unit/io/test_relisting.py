"""Tests of io/relisting.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.io import relisting
from memreplay.io.listing import listed
from memreplay.io.relisting import ANYWAY_S, COARSE_S, Lister, Listing
from tests.unit.commands.watch.world import World


def put(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder


def look(folder: Path, *, deep: bool = False) -> Listing:
    return Lister(str(folder), deep=deep, clock=lambda: 0.0).look()


def test_only_regular_files_with_snapshot_names_are_listed(tmp_path: Path) -> None:
    put(tmp_path, "a.pkl", "b.txt", ".c.pkl", "d.pkl.7-1.part", "sub/deep/e.pkl", "x.json")
    (tmp_path / "f.pkl").symlink_to("a.pkl")
    (tmp_path / "g.pkl").symlink_to("nowhere")
    (tmp_path / "h").symlink_to("sub")
    (tmp_path / "i.pkl").mkdir()
    os.mkfifo(tmp_path / "j.pkl")
    (tmp_path / "l.pkl").symlink_to("/proc/self/mem")  # a regular file, by its mode
    (tmp_path / "m.pkl").symlink_to("/dev/zero")
    (tmp_path / "a.pkl").write_bytes(b"123")
    found = look(tmp_path)
    assert (sorted(found.files), found.folders, found.trouble) == (["a.pkl", "f.pkl"], True, "")
    assert found.files["f.pkl"].st_size == 3
    assert sorted(look(tmp_path, deep=True).files) == ["a.pkl", "f.pkl", "sub/deep/e.pkl"]
    bare = look(put(tmp_path / "k", "y.json", "z.txt"))
    assert (list(bare.files), bare.folders) == (["y.json"], False)
    assert look(tmp_path / "i.pkl", deep=True).files == {}
    for name, error in (("none", FileNotFoundError), ("b.txt", NotADirectoryError)):
        with pytest.raises(error):
            look(tmp_path / name, deep=True)


def test_depth_of_folders_is_limited(tmp_path: Path) -> None:
    deepest = "a/" * relisting.MOST_LEVELS
    put(tmp_path, f"{deepest}x.pkl", f"{deepest}b/y.pkl")
    (found,) = look(tmp_path, deep=True).files
    assert found == f"{deepest}x.pkl"


def test_unreadable_entries_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a.pkl", "rank0/b.pkl", "rank1/c.pkl", "rank2/d.pkl")
    scandir, stat = os.scandir, os.stat

    def scanned(path: str) -> object:
        for name, number in (("rank0", 13), ("rank1", 2)):
            if path.endswith(name):
                raise OSError(number, os.strerror(number))
        return scandir(path)

    def told(path: str) -> os.stat_result:
        if path.endswith("d.pkl"):
            raise PermissionError(13, "Permission denied")
        return stat(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scanned)
        found = look(tmp_path, deep=True)
    assert sorted(found.files) == ["a.pkl", "rank2/d.pkl"]
    assert found.trouble == "rank0: permission denied"
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", told)
        found = look(tmp_path, deep=True)
    assert sorted(found.files) == ["a.pkl", "rank0/b.pkl", "rank1/c.pkl"]
    assert found.trouble == "rank2/d.pkl: permission denied"


def test_folder_is_listed_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    read: list[tuple[float, str]] = []
    scandir = os.scandir

    def noted(path: str) -> object:
        read.append((world.now, os.path.basename(path.rstrip("/"))))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    world.write("rank0/a.pkl", b"1")
    lister = Lister(str(world.folder), deep=True, clock=world.clock)

    def looked(until: float) -> list[tuple[float, str]]:
        read.clear()
        while world.now < until:
            lister.look()
            world.now += 1
        return list(read)

    # The folder is listed as long as a change might not alter the folder's time, and then never
    # again.
    first = looked(20)
    assert {when for when, _ in first} == set(range(int(COARSE_S)))
    # A change inside a file is noticed without listing the folder.
    world.write("rank0/a.pkl", b"12")
    assert lister.look().files["rank0/a.pkl"].st_size == 2
    world.write("rank0/b.pkl", b"1")
    os.utime(world.folder / "rank0", (1, 1))
    assert set(lister.look().files) == {"rank0/a.pkl", "rank0/b.pkl"}
    assert {name for _, name in looked(22)} == {"rank0"}
    # Changes that don't touch the folder's time are found eventually.
    looked(30)
    os.utime(world.folder, (5, 5))
    looked(35)
    world.write("c.pkl", b"1")
    os.utime(world.folder, (5, 5))
    assert "c.pkl" not in lister.look().files
    assert looked(35 + ANYWAY_S)
    assert "c.pkl" in lister.look().files


def test_subfolders_are_listed_if_the_folder_has_no_snapshots(tmp_path: Path) -> None:
    """These subfolders are still watched after a snapshot appears next to them, but others aren't
    added.
    """
    clock = iter(range(0, 1000, 100))
    nested = Lister(str(tmp_path), deep=False, clock=lambda: float(next(clock)))
    assert nested.look().files == {}
    put(tmp_path, "iteration_10/rank0.pkl", "iteration_10/more/rank1.pkl")
    found = nested.look()
    assert (list(found.files), found.folders) == (["iteration_10/rank0.pkl"], True)
    put(tmp_path, "merged.pkl", "iteration_20/rank0.pkl")
    both = ["iteration_10/rank0.pkl", "iteration_20/rank0.pkl", "merged.pkl"]
    assert sorted(nested.look().files) == both
    assert list(look(tmp_path).files) == ["merged.pkl"]


def test_pages_are_recognized_by_content(tmp_path: Path) -> None:
    put(tmp_path, "report.html")
    (tmp_path / "trace_plot.html").write_bytes(b'<html><script>[{"base64": "gASV"}]</script>')
    assert list(look(tmp_path).files) == ["trace_plot.html"]
    put(tmp_path, "snapshot.pickle")
    assert list(look(tmp_path).files) == ["snapshot.pickle"]


def test_traces_in_neighbouring_folders_are_ignored(tmp_path: Path) -> None:
    """In torchtitan's layout, `fleet` and `gate` select the same files."""
    traces = put(tmp_path, "traces/iteration_10/rank0_trace.json.gz", "report.json")
    assert len(look(traces, deep=True).files) == 2
    name = "memory_snapshot/step_000000000010/000000_step_10.pickle"
    put(tmp_path, name)
    assert list(look(tmp_path, deep=True).files) == [name]
    assert [one.name for one in listed([str(tmp_path)])] == ["000000_step_10.pickle"]
