"""Tests of commands/watch/following.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.commands.watch.following import PATIENCE, Following
from memreplay.commands.watch.options import WatchOptions
from tests.unit.commands.watch.world import World


def following(world: World, *folders: str, **choices: object) -> Following:
    asked = WatchOptions(folders=folders or (str(world.folder),), **choices)  # type: ignore[arg-type]
    return Following(asked, clock=world.clock, wall=world.wall)


def names(found: Following) -> list[str]:
    return [file.name for file in found.look().due]


def test_old_files_are_due_at_once_and_new_ones_when_unchanged(world: World) -> None:
    world.write("old.pkl", b"1", age=2)
    world.write("young.pkl", b"1", age=1.5)
    world.write("future.pkl", b"1", age=-100)
    found = following(world)
    assert names(found) == ["old.pkl"]
    world.now = 0.6
    assert names(found) == ["old.pkl", "young.pkl"]  # files stay due until they are read
    for file in found.look().due:
        file.done = True
    # Later, only memreplay's own clock counts, because the file system's may differ.
    world.write("late.pkl", b"1", age=1000)
    world.now = 1.9
    assert names(found) == []
    world.now = 2.1
    assert names(found) == ["future.pkl"]
    world.now = 3.95
    assert names(found) == ["late.pkl", "future.pkl"]


def test_files_are_ordered_by_time(world: World) -> None:
    for name, age in (("a10.pkl", 5), ("a9.pkl", 5), ("z.pkl", 50), ("b.pkl", 4)):
        world.write(name, b"1", age=age)
    assert names(following(world)) == ["z.pkl", "a9.pkl", "a10.pkl", "b.pkl"]


def test_unchanged_file_is_tried_again_later(world: World) -> None:
    world.write("a.pkl", b"1", age=3)
    found = following(world)
    (file,) = found.look().due
    file.tried = True
    assert names(found) == []
    world.now = 2 * PATIENCE - 3.1
    assert names(found) == []
    world.now = 2 * PATIENCE - 2.9
    assert names(found) == ["a.pkl"]


@pytest.mark.parametrize("change", ["size", "time", "inode"])
def test_changed_file_is_due_again(world: World, change: str) -> None:
    path = world.write("a.pkl", b"1", age=10)
    found = following(world)
    (file,) = found.look().due
    file.done = True
    before = path.stat()
    if change == "inode":
        other = world.write("b.txt", b"1")
        os.replace(other, path)
    else:
        path.write_bytes(b"12" if change == "size" else b"2")
    changed = before.st_mtime_ns + (change == "time") * 1000
    os.utime(path, ns=(changed, changed))
    assert names(found) == []
    assert not file.done
    world.now = 2.1
    assert names(found) == ["a.pkl"]


def test_folder_with_two_names_is_watched_once(world: World, tmp_path: Path) -> None:
    world.write("a.pkl", b"1", age=10)
    link = tmp_path / "link"
    link.symlink_to(world.folder)
    found = following(world, str(world.folder) + "/", str(link), str(world.folder))
    assert found.folders == (f"{world.folder}/",)
    assert names(found) == ["a.pkl"]


def test_link_to_a_folder_may_change(world: World, tmp_path: Path) -> None:
    world.write("one/a.pkl", b"1", age=10)
    world.write("two/b.pkl", b"1", age=10)
    link = tmp_path / "latest"
    link.symlink_to(world.folder / "one")
    found = following(world, str(link))
    assert names(found) == ["a.pkl"]
    link.unlink()
    link.symlink_to(world.folder / "two")
    world.now = 1
    found.look()
    world.now = 4
    assert names(found) == ["b.pkl"]


def test_subfolders_are_followed_only_on_request(world: World) -> None:
    world.write("step_1/rank0/a.pkl", b"1", age=10)
    found = following(world)
    look = found.look()
    assert look.due == []
    words = "1 snapshot in subfolders left out (step_1/rank0/a.pkl); -r follows all folders"
    assert look.notes == [f"{world.folder}: {words}"]
    assert found.look().notes == []
    assert names(following(world, recursive=True)) == ["step_1/rank0/a.pkl"]


def test_newer_dumps_below_older_ones_are_reported(world: World) -> None:
    world.write("rank0.pkl", b"1", age=10)
    for step in (5, 10):
        world.write(f"step_{step}/rank0.pkl", b"1", age=10)
    look = following(world).look()
    assert [file.name for file in look.due] == ["rank0.pkl"]
    words = "2 snapshots in subfolders left out (step_5/rank0.pkl); -r follows all folders"
    assert look.notes == [f"{world.folder}: {words}"]
    assert following(world, recursive=True).look().notes == []


def test_note_says_that_there_is_no_snapshot_yet(world: World) -> None:
    (world.folder / "a" / "b").mkdir(parents=True)
    look = following(world).look()
    assert look.notes == [f"{world.folder}: no snapshot yet; -r also follows all subfolders"]


def test_pipe_is_reported_once_and_other_files_are_followed(world: World) -> None:
    os.mkfifo(world.folder / "rank0.pkl")
    world.write("step_1/rank0.pkl", b"1", age=10)
    (world.folder / "rank1.pkl").symlink_to("rank0.pkl")
    found = following(world)
    look = found.look()
    assert [file.name for file in look.due] == ["step_1/rank0.pkl"]
    words = "pipes and devices aren't read; write snapshots to files"
    assert sorted(look.notes) == [f"{world.folder}/rank{n}.pkl: {words}" for n in (0, 1)]
    assert found.look().notes == []


def test_unlistable_folder_keeps_its_known_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a.pkl", b"1", age=10)
    found = following(world)
    (file,) = found.look().due
    file.done = True

    def refused(*_: object) -> None:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refused)
        assert found.look().notes == [f"{world.folder}: it can't be listed: stale file handle"]
        assert found.look().notes == []
    look = found.look()
    assert look.notes == [f"{world.folder}: it can be read now"]
    assert (look.due, look.gone, found.pending) == ([], [], [])
