"""Tests of commands/watch/following.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.commands.watch.following import PATIENCE, Following
from tests.unit.commands.watch.world import World


def following(world: World, *folders: str, **choices: object) -> Following:
    asked = {"settle": 2.0, "deep": False, "new": False, **choices}
    names = folders or (str(world.folder),)
    return Following(names, clock=world.clock, wall=world.wall, **asked)  # type: ignore[arg-type]


def names(found: Following) -> list[str]:
    return [file.name for file in found.look().due]


def test_what_is_old_is_due_at_once_and_what_is_new_when_it_is_unchanged(world: World) -> None:
    world.write("old.pkl", b"1", age=2)
    world.write("young.pkl", b"1", age=1.5)
    world.write("future.pkl", b"1", age=-100)
    found = following(world)
    assert names(found) == ["old.pkl"]
    world.now = 0.6
    assert names(found) == ["old.pkl", "young.pkl"]  # they stay due until they are done
    for file in found.look().due:
        file.done = True
    # Later the file system's clock, which may be another, is not asked.
    world.write("late.pkl", b"1", age=1000)
    world.now = 1.9
    assert names(found) == []
    world.now = 2.1
    assert names(found) == ["future.pkl"]
    world.now = 3.95
    assert names(found) == ["late.pkl", "future.pkl"]


def test_in_the_order_of_their_times(world: World) -> None:
    for name, age in (("a10.pkl", 5), ("a9.pkl", 5), ("z.pkl", 50), ("b.pkl", 4)):
        world.write(name, b"1", age=age)
    assert names(following(world)) == ["z.pkl", "a9.pkl", "a10.pkl", "b.pkl"]


def test_patience(world: World) -> None:
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
def test_changes(world: World, change: str) -> None:
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


def test_one_folder_by_two_names_is_one(world: World, tmp_path: Path) -> None:
    world.write("a.pkl", b"1", age=10)
    link = tmp_path / "link"
    link.symlink_to(world.folder)
    found = following(world, str(world.folder) + "/", str(link), str(world.folder))
    assert found.folders == (f"{world.folder}/",)
    assert names(found) == ["a.pkl"]


def test_a_link_that_leads_somewhere_else(world: World, tmp_path: Path) -> None:
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


def test_the_folders_in_it(world: World) -> None:
    world.write("step_1/rank0/a.pkl", b"1", age=10)
    found = following(world)
    look = found.look()
    assert look.due == []
    words = "1 snapshot further below left out (step_1/rank0/a.pkl); -r follows all folders"
    assert look.notes == [f"{world.folder}: {words}"]
    assert found.look().notes == []
    assert names(following(world, deep=True)) == ["step_1/rank0/a.pkl"]


def test_newer_dumps_below_older_ones_are_told(world: World) -> None:
    world.write("rank0.pkl", b"1", age=10)
    for step in (5, 10):
        world.write(f"step_{step}/rank0.pkl", b"1", age=10)
    look = following(world).look()
    assert [file.name for file in look.due] == ["rank0.pkl"]
    words = "2 snapshots further below left out (step_5/rank0.pkl); -r follows all folders"
    assert look.notes == [f"{world.folder}: {words}"]
    assert following(world, deep=True).look().notes == []


def test_folders_without_a_snapshot_yet(world: World) -> None:
    (world.folder / "a" / "b").mkdir(parents=True)
    look = following(world).look()
    assert look.notes == [f"{world.folder}: no snapshot yet; with -r all folders below count, too"]


def test_a_pipe_is_told_once_and_hides_nothing(world: World) -> None:
    os.mkfifo(world.folder / "rank0.pkl")
    world.write("step_1/rank0.pkl", b"1", age=10)
    (world.folder / "rank1.pkl").symlink_to("rank0.pkl")
    found = following(world)
    look = found.look()
    assert [file.name for file in look.due] == ["step_1/rank0.pkl"]
    words = "this is a pipe or a device, and isn't read: write snapshots to files"
    assert sorted(look.notes) == [f"{world.folder}/rank{n}.pkl: {words}" for n in (0, 1)]
    assert found.look().notes == []


def test_a_folder_that_cannot_be_listed_keeps_what_is_known(
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
        assert found.look().notes == [f"{world.folder}: it cannot be listed: stale file handle"]
        assert found.look().notes == []
    look = found.look()
    assert look.notes == [f"{world.folder}: it can be looked at now"]
    assert (look.due, look.gone, found.pending) == ([], [], [])
