"""A file is read once until it changes; a few snapshots are kept, and evicted ones are freed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from memreplay.errors import SnapshotError
from memreplay.mcp.allowed import Allowed, AllowedFile
from memreplay.mcp.cache import Kept
from memreplay.snapshot.snapshot import Snapshot


class Read(Snapshot):
    """The size of a snapshot that is kept."""

    stream_bytes = 100

    def __init__(self, name: str) -> None:
        self.file = name
        self.left = 0

    def __exit__(self, *_error: object) -> None:
        self.left += 1


class World:
    """A folder of files, and the names of those read so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.allowed = Allowed([str(folder)])
        self.read: list[Read] = []
        self.before = Event()
        self.before.set()

    def file(self, name: str, text: str | None = None) -> AllowedFile:
        if text is not None or not (self.folder / name).exists():
            (self.folder / name).write_text(text or name)
        return self.allowed.file(name)

    def open(self, file: AllowedFile, salvage: bool) -> Snapshot:
        assert self.before.wait(20)
        if "broken" in file.name:
            raise SnapshotError("broken")
        self.read.append(Read(f"{file.name}{' salvaged' * salvage}"))
        return self.read[-1]

    @property
    def names(self) -> list[str]:
        return [one.file for one in self.read]

    @contextmanager
    def using(self, kept: Kept, *names: str) -> Iterator[list[Snapshot]]:
        with kept.using([(self.file(name), False) for name in names], self.open) as found:
            yield found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_file_is_read_once(world: World) -> None:
    kept = Kept()
    for _ in range(3):
        with world.using(kept, "a") as (found,):
            assert found.file == "a"
    assert world.names == ["a"]
    assert world.read[0].left == 0


def test_replaced_file_is_read_again(world: World) -> None:
    kept = Kept()
    for text in ("one", "two", "three", "three"):
        (world.folder / "new").write_text(text)
        os.utime(world.folder / "new", ns=(5, 5))
        os.replace(world.folder / "new", world.folder / "a")  # size and time may be the same
        with world.using(kept, "a"):
            pass
    assert len(world.read) == 4
    assert [one.left for one in world.read] == [1, 1, 1, 0]


def test_salvaged_snapshot_is_kept_separately(world: World) -> None:
    kept = Kept()
    file = world.file("a")
    for salvage in (True, False, True):
        with kept.using([(file, salvage)], world.open):
            pass
    assert world.names == ["a salvaged", "a"]


def test_least_recently_used_is_evicted(world: World) -> None:
    kept = Kept(most=2)
    for name in "abacab":
        with world.using(kept, name):
            pass
    assert world.names == ["a", "b", "c", "b"]
    assert [one.left for one in world.read] == [0, 1, 1, 0]


def test_bytes_are_bounded_except_by_the_last_snapshot(world: World) -> None:
    kept = Kept(most_bytes=250)
    for name in "abc":
        with world.using(kept, name):
            pass
    assert [one.left for one in world.read] == [1, 0, 0]
    small = Kept(most_bytes=50)
    for _ in range(2):
        with world.using(small, "a"):
            pass
    assert world.names == ["a", "b", "c", "a"]


def test_unreadable_file_is_not_kept(world: World) -> None:
    kept = Kept(most=1)
    with world.using(kept, "a"):
        pass
    for _ in range(2):
        with pytest.raises(SnapshotError), world.using(kept, "broken"):
            pass
    with world.using(kept, "a"):
        pass
    assert world.names == ["a"]


def test_two_snapshots_or_one_twice_can_be_used_together(world: World) -> None:
    kept = Kept()
    with world.using(kept, "b", "a") as found:
        assert [one.file for one in found] == ["b", "a"]
    with world.using(kept, "a", "a") as found:
        assert found[0] is found[1]
    # Two snapshots are always locked in the same order; otherwise, two calls could deadlock.
    assert world.names == ["a", "b"]


def test_evicted_snapshot_in_use_is_freed_afterwards(world: World) -> None:
    kept = Kept(most=1)
    with world.using(kept, "a"):
        with world.using(kept, "b"):
            pass
        # The snapshot was dropped to make room, but is still in use.
        assert [one.left for one in world.read if one.file == "a"] == [0]
    assert [one.left for one in world.read if one.file == "a"] == [1]


def test_concurrent_requests_read_a_file_once(world: World) -> None:
    kept = Kept()
    together = Barrier(3)
    found: list[Snapshot] = []

    def ask() -> None:
        together.wait(20)
        with world.using(kept, "a") as (one,):
            found.append(one)

    world.file("a")
    threads = [Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    together.wait(20)
    for thread in threads:
        thread.join(20)
    assert len(found) == 2
    assert world.names == ["a"]


def test_comparisons_in_both_orders_do_not_deadlock(world: World) -> None:
    kept = Kept()
    together = Barrier(2)

    def ask(*names: str) -> None:
        together.wait(20)
        for _ in range(50):
            with world.using(kept, *names):
                pass

    for name in "ab":
        world.file(name)
    threads = [Thread(target=ask, args=pair, daemon=True) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def test_slow_read_does_not_block_others(world: World) -> None:
    kept = Kept()
    with world.using(kept, "a"):
        pass
    world.before.clear()
    world.file("slow")

    def ask() -> None:
        with world.using(kept, "slow"):
            pass

    thread = Thread(target=ask)
    thread.start()
    with world.using(kept, "a") as (found,):
        assert found.file == "a"
    world.before.set()
    thread.join(20)
    assert world.names == ["a", "slow"]
