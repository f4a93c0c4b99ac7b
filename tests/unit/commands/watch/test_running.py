"""Tests of commands/watch/running.py: the order of reads, lines and exit codes."""

from __future__ import annotations

import gc
import json
import os
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memreplay
from memreplay.commands.shared import source
from memreplay.commands.watch import running
from memreplay.commands.watch.find import watched_devices
from memreplay.commands.watch.running import Watch
from tests.bad_files import unsafe_pickles
from tests.build import dump
from tests.unit.commands.watch.world import MIB, START_S, World, snapshot
from tests.unit.render.schemas import check_against

Lines = list[dict[str, Any]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[Watch, int], Lines]:
    """Run a watch that writes JSON, check its exit code, and return all lines except the last."""

    def run(watch: Watch, exit_code: int = 0) -> Lines:
        capsys.readouterr()
        assert watch.run() == exit_code
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        for line in found:
            check_against("watch-1.json", line)
        assert found[-1]["kind"] == "end"
        assert found[-1]["exit_code"] == exit_code
        return found[:-1]

    return run


def seconds(line: dict[str, Any]) -> float:
    return float(line["time_us"] / 1e6 - START_S)


def peaks(found: Lines) -> list[tuple[str, list[int]]]:
    return [
        (Path(line["file"]).name, [one["peak_bytes"] // MIB for one in line["devices"]])
        for line in found
    ]


def reads(monkeypatch: pytest.MonkeyPatch, world: World) -> list[tuple[float, str]]:
    """Return a list to which the time of each read is added."""
    found: list[tuple[float, str]] = []
    opened = source.opened

    def noted(file: str, *arguments: Any) -> Any:
        found.append((round(world.now, 1), os.path.basename(file)))
        return opened(file, *arguments)

    monkeypatch.setattr(running, "opened", noted)
    return found


def test_existing_files_are_read_before_new_ones(world: World, lines: Any) -> None:
    world.write("b.pkl", snapshot(30), age=100)
    world.write("a.pkl", snapshot(20), age=50)
    world.write_at(4, "c.pkl", snapshot(40, 10))
    found = lines(world.watch(timeout=20, as_json=True))
    assert peaks(found) == [("b.pkl", [30]), ("a.pkl", [20]), ("c.pkl", [40, 10])]
    assert [round(seconds(line)) for line in found] == [-100, -50, 4]
    for line in found:
        for measure in ("requested", "reserved"):
            report = memreplay.peak(memreplay.open(line["file"]), measure=measure)
            key = "peak_bytes" if measure == "requested" else "reserved_peak_bytes"
            assert [one[key] for one in line["devices"]] == [
                one.peak_bytes for one in report.devices
            ]


def test_file_is_read_once_it_stops_changing(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reads(monkeypatch, world)
    data = snapshot(20)
    for second in range(1, 8):
        world.write_at(second, "a.pkl", data[: len(data) * second // 7])
    found = lines(world.watch(timeout=30, as_json=True))
    assert peaks(found) == [("a.pkl", [20])]
    assert len(opened) == 1
    assert 9 <= opened[0][0] <= 10.2


def test_partial_file_that_pauses_prints_no_line(world: World, lines: Any) -> None:
    data = snapshot(20)
    world.write_at(1, "a.pkl", data[:-200])
    world.write_at(9, "a.pkl", data)
    assert peaks(lines(world.watch(timeout=30, as_json=True))) == [("a.pkl", [20])]


def test_truncated_file_prints_a_line_and_watching_continues(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reads(monkeypatch, world)
    data = snapshot(20)
    world.write_at(1, "a.pkl", data[:-200])
    world.write_at(30, "b.pkl", data)
    broken, whole = lines(world.watch(timeout=40, as_json=True), 4)
    assert (broken["kind"], broken["exit_code"], broken["devices"]) == ("not_read", 4, [])
    assert "truncated" in broken["error"] or "ends" in broken["error"]
    assert whole["kind"] == "snapshot"
    # The file was read when it stopped changing, and once more before giving up.
    assert [name for _, name in opened] == ["a.pkl", "a.pkl", "b.pkl"]
    assert 11 <= opened[1][0] <= 12.3


def test_repaired_file_is_not_a_failure(world: World, lines: Any) -> None:
    data = snapshot(20)
    world.write("a.pkl", data[:-200], age=100)
    world.write_at(5, "a.pkl", data)
    broken, whole = lines(world.watch(timeout=20, as_json=True), 0)
    assert (broken["kind"], whole["kind"]) == ("not_read", "snapshot")
    assert (broken["rewritten"], whole["rewritten"]) == (False, True)


def test_new_file_of_the_same_name_is_read_again(world: World, lines: Any) -> None:
    world.write("a.pkl", snapshot(20), age=100)
    world.replace_at(5, "a.pkl", snapshot(25))
    first, second = lines(world.watch(timeout=20, as_json=True))
    assert (first["rewritten"], second["rewritten"]) == (False, True)
    assert first["devices"][0]["change_bytes"] is None
    assert second["devices"][0]["change_bytes"] == 5 * MIB
    assert second["devices"][0]["changed_since"] == second["file"]


def test_links_and_modes_are_not_changes(world: World, lines: Any) -> None:
    path = world.write("a.pkl", snapshot(20), age=100)
    world.at(5, lambda: os.link(path, world.folder / "b.txt"))
    world.at(6, lambda: path.chmod(0o600))
    assert len(lines(world.watch(timeout=20, as_json=True))) == 1


def test_file_that_changes_during_the_read_prints_no_line(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a.pkl", snapshot(20), age=100)
    find = watched_devices

    def changing(*arguments: Any, **limits: Any) -> Any:
        if world.now < 1:
            world.write("a.pkl", snapshot(30))
        return find(*arguments, **limits)

    monkeypatch.setattr(running, "watched_devices", changing)
    assert peaks(lines(world.watch(timeout=20, as_json=True))) == [("a.pkl", [30])]


def test_nothing_is_read_while_nothing_changes(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reads(monkeypatch, world)
    world.write("a.pkl", snapshot(20), age=100)
    world.write("b.pkl", b"no snapshot at all", age=100)
    found = lines(world.watch(timeout=3600, as_json=True), 3)
    assert [line["kind"] for line in found] == ["snapshot", "not_read"]
    assert len(opened) == 2


def test_change_is_relative_to_the_same_ranks_previous_file(world: World, lines: Any) -> None:
    for second, (name, peak) in enumerate(
        [("step_1/rank0.pkl", 10), ("step_1/rank1.pkl", 50), ("step_2/rank0.pkl", 13)]
    ):
        world.write(name, snapshot(peak), age=100 - second)
    found = lines(world.watch(now=True, recursive=True, as_json=True))
    assert [line["rank"] for line in found] == [0, 1, 0]
    changes = [line["devices"][0]["change_bytes"] for line in found]
    assert changes == [None, None, 3 * MIB]
    assert found[2]["devices"][0]["changed_since"] == found[0]["file"]


def test_rank_in_the_file_is_used(world: World, lines: Any) -> None:
    import pickle

    for name, rank, peak in (("x0.pkl", 0, 10), ("x1.pkl", 1, 50), ("x2.pkl", 0, 12)):
        value = pickle.loads(snapshot(peak))
        value["memreplay"] = {"recorder": "record", "rank": rank}
        world.write(name, dump(value), age=100 - int(name[1]))
    found = lines(world.watch(now=True, as_json=True))
    assert [line["rank"] for line in found] == [0, 1, 0]
    assert [line["devices"][0]["change_bytes"] for line in found] == [None, None, 2 * MIB]


def test_unreadable_file_prints_a_line(world: World, lines: Any) -> None:
    world.write("a.pkl", next(iter(unsafe_pickles().values())), age=100)
    world.write("b.pkl", b"", age=99)
    world.write("c.pkl.gz", b"\x1f\x8b" + b"x" * 50, age=98)
    world.write("d\x1b[31m\n.pkl", b"text", age=97)
    world.write("e.pkl", snapshot(3), age=96)
    world.write("notes.txt", b"", age=95)
    world.write("f.pkl.12-1.part", b"", age=94)
    (world.folder / "g.pkl").mkdir()
    os.mkfifo(world.folder / "h.pkl")
    found = lines(world.watch(now=True, as_json=True), 3)
    names = [Path(line["file"]).name for line in found]
    assert names == ["a.pkl", "b.pkl", "c.pkl.gz", "d\x1b[31m\n.pkl", "e.pkl"]
    assert [line["kind"] for line in found] == ["not_read"] * 4 + ["snapshot"]
    assert all(line["error"] and "\n" not in line["error"] for line in found[:4])


def test_repeated_error_is_printed_once(world: World, lines: Any) -> None:
    world.write("a.pkl", b"not a snapshot\n", age=100)
    for second in (5, 25, 45):
        world.write_at(second, "a.pkl", b"not a snapshot\n" + b" " * second)
    found = lines(world.watch(timeout=100, as_json=True), 3)
    assert len(found) == 1


def test_file_that_cannot_be_opened_is_tried_again(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = source.opened
    path = world.write("a.pkl", snapshot(20), age=100)

    def refused(file: str, *arguments: Any) -> Any:
        if world.now < 5:
            raise PermissionError(13, "Permission denied")
        return opened(file, *arguments)

    monkeypatch.setattr(running, "opened", refused)
    world.at(5, lambda: path.chmod(0o600))
    world.at(20, lambda: os.link(path, world.folder / "b.txt"))
    denied, read = lines(world.watch(timeout=30, as_json=True))
    assert denied["error"] == "permission denied; check the file's owner and mode"
    assert (denied["exit_code"], read["kind"]) == (3, "snapshot")


def test_file_deleted_before_it_is_read_is_reported(world: World, lines: Any) -> None:
    path = world.write("a.pkl", snapshot(20))
    world.at(1.5, path.unlink)
    (gone,) = lines(world.watch(timeout=10, as_json=True))
    assert (gone["kind"], gone["error"]) == ("not_read", "it was removed before it was read")
    assert gone["file_bytes"] is None


def test_file_deleted_during_a_rewrite_prints_no_line(world: World, lines: Any) -> None:
    path = world.write("a.pkl", snapshot(20), age=100)
    world.write_at(5, "a.pkl", snapshot(21))
    world.at(6.5, path.unlink)
    assert len(lines(world.watch(timeout=10, as_json=True))) == 1


def test_file_deleted_after_it_was_read_prints_no_line(world: World, lines: Any) -> None:
    path = world.write("a.pkl", snapshot(20), age=100)
    world.at(1.5, path.unlink)
    watch = world.watch(timeout=10, as_json=True)
    assert len(lines(watch)) == 1
    assert not any(watch.following.files.values())


def test_folder_may_appear_later_and_disappear(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = world.folder / "later"
    world.write_at(3, "later/a.pkl", snapshot(20))
    world.at(20, lambda: shutil.rmtree(folder))
    world.write_at(30, "later/a.pkl", snapshot(21))
    assert world.watch(str(folder), timeout=60, as_json=True).run() == 0
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 3
    assert found.err.splitlines() == [
        f"memreplay: {folder}: the folder doesn't exist yet",
        f"memreplay: {folder}: it can be read now",
        f"memreplay: {folder}: the folder doesn't exist yet",
        f"memreplay: {folder}: it can be read now",
    ]


def test_watch_fails_if_the_folder_never_appears(world: World, lines: Any) -> None:
    assert lines(world.watch(str(world.folder / "none"), timeout=5, as_json=True), 3) == []
    assert lines(world.watch(str(world.folder / "none"), now=True, as_json=True), 3) == []


def test_new_option_skips_existing_files(world: World, lines: Any) -> None:
    world.write("a.pkl", snapshot(20), age=100)
    world.write("b.pkl", snapshot(21), age=100)
    world.write_at(4, "c.pkl", snapshot(22))
    world.write_at(9, "b.pkl", snapshot(23))
    found = lines(world.watch(timeout=20, new=True, as_json=True))
    assert peaks(found) == [("c.pkl", [22]), ("b.pkl", [23])]


def test_files_over_budget_are_marked(world: World, lines: Any) -> None:
    world.write("a.pkl", snapshot(20, reserved=20), age=100)
    world.write("b.pkl", snapshot(21, 5, reserved=22), age=99)
    world.write("c.pkl", snapshot(5, reserved=90), age=98)
    limits = {"max_peak": 20 * MIB, "max_reserved": 22 * MIB}
    found = lines(world.watch(now=True, as_json=True, **limits), 1)
    assert [line["over_budget"] for line in found] == [False, True, True]
    past = [[one["over_limits"] for one in line["devices"]] for line in found]
    assert past == [[[]], [["max_peak"], []], [["max_reserved"]]]
    assert lines(world.watch(now=True, as_json=True, max_peak=21 * MIB), 0)


def test_budget_uses_the_measure(world: World, lines: Any) -> None:
    world.write("a.pkl", snapshot(20, reserved=90), age=100)
    (line,) = lines(world.watch(now=True, as_json=True, measure="reserved", max_peak=89 * MIB), 1)
    assert line["measure"] == "reserved"
    assert line["devices"][0]["peak_bytes"] == 90 * MIB
    assert line["devices"][0]["largest"]["bytes"] == 90 * MIB


def test_watch_stops_at_the_first_file_over_budget(world: World, lines: Any) -> None:
    for number in range(5):
        world.write(f"{number}.pkl", snapshot(10 + number), age=100 - number)
    found = lines(world.watch(over=True, max_peak=11 * MIB, as_json=True), 1)
    assert [name for name, _ in peaks(found)] == ["0.pkl", "1.pkl", "2.pkl"]


def test_watch_stops_after_the_requested_number_of_files(world: World, lines: Any) -> None:
    for number in range(5):
        world.write(f"{number}.pkl", snapshot(10 + number), age=100 - number)
    assert len(lines(world.watch(count=3, as_json=True))) == 3
    assert world.now == 0


def test_now_option_waits_for_unfinished_files_but_not_forever(world: World, lines: Any) -> None:
    world.write("a.pkl", snapshot(20))
    assert peaks(lines(world.watch(now=True, as_json=True))) == [("a.pkl", [20])]
    assert 2 <= world.now <= 3.1
    world.write("b.pkl", b"x")
    for second in range(30):
        world.write_at(world.now + second, "b.pkl", b"x" * (2 + second))
    found = lines(world.watch(now=True, as_json=True), 4)
    assert [line["error"] for line in found] == [None, "it's still being written"]


def test_signal_ends_the_watch_with_a_summary(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write("a.pkl", snapshot(20), age=100)
    world.write("b.pkl", snapshot(31, 5), age=99)
    world.write("c.pkl", b"x", age=98)
    watch = world.watch(max_peak=30 * MIB)
    world.at(7, lambda: watch._stop(2, None))
    assert watch.run() == 1
    assert 7 <= world.now < 7.2
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        f"2 snapshots, highest peak 31.0 MiB in {world.folder}/b.pkl (device 0),"
        " 1 above the limit, 1 not read"
    )


def test_signal_during_a_read_ends_the_watch(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a.pkl", snapshot(20), age=100)
    watch = world.watch(as_json=True)
    update = watch._showing

    def pressed(file: str) -> Any:
        watch._stop(2, None)
        return update(file)

    monkeypatch.setattr(watch, "_showing", pressed)
    assert lines(watch) == []
    assert watch.totals.ended == "signal"


def test_snapshot_is_freed_after_its_line_is_printed(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    find = watched_devices

    def noted(snap: Any, *arguments: Any, **limits: Any) -> Any:
        assert all(one() is None for one in seen), "the one before is still there"
        seen.append(weakref.ref(snap))
        return find(snap, *arguments, **limits)

    monkeypatch.setattr(running, "watched_devices", noted)
    for number in range(3):
        world.write(f"{number}.pkl", snapshot(10), age=100)
    gc.disable()
    try:
        lines(world.watch(now=True, as_json=True))
    finally:
        gc.enable()
    assert len(seen) == 3
    assert seen[-1]() is None


def test_old_families_are_forgotten(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_FAMILIES", 2)
    for age, name in enumerate(("a.pkl", "b.pkl", "c.pkl")):
        world.write(name, snapshot(10), age=100 - age)
    watch = world.watch(now=True, as_json=True)
    lines(watch)
    assert [family[1] for family in watch._last] == ["b", "c"]


def test_text_has_a_line_per_device(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    world.write("a.pkl", snapshot(20), age=100)
    world.write("b.pkl", snapshot(25, 5), age=99)
    world.write("c.pkl", b"some text\n", age=98)
    world.write("d.pkl", dump({"segments": [], "device_traces": []}), age=97)
    assert world.watch(now=True, max_peak=22 * MIB).run() == 1
    wrong = "08:51:42  c.pkl             not read: not a memory snapshot, but text ('some text')"
    wrong += " (byte 0); record one with torch.cuda.memory._dump_snapshot(path)"
    last = f"3 snapshots, highest peak 25.0 MiB in {world.folder}/b.pkl (device 0),"
    last += " 1 above the limit, 1 not read"
    assert capsys.readouterr().out.splitlines() == [
        "UTC       file              dev  requested    reserved       change  largest",
        "08:51:40  a.pkl               0   20.0 MiB    20.0 MiB            -  activations",
        "08:51:41  b.pkl               0   25.0 MiB!   25.0 MiB            -  activations",
        "08:51:41  b.pkl               1    5.0 MiB    25.0 MiB            -  activations",
        wrong,
        "08:51:43  d.pkl             it has no recorded memory",
        last,
    ]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert world.watch(now=True, max_peak=22 * MIB).run() == 1
    coloured = capsys.readouterr().out.splitlines()
    assert coloured[0].startswith("\x1b[2m")
    assert "\x1b" not in coloured[1]
    assert coloured[2].startswith("\x1b[31m\x1b[1m08")


def test_watch_ends_in_time_at_any_interval(world: World, lines: Any) -> None:
    assert lines(world.watch(timeout=2.5, interval=60.0, as_json=True)) == []
    assert 2.5 <= world.now < 2.7


def test_first_of_equal_peaks_is_the_highest(world: World, lines: Any) -> None:
    for age, name in enumerate(("a.pkl", "b.pkl")):
        world.write(name, snapshot(10), age=100 - age)
    watch = world.watch(now=True, as_json=True)
    lines(watch)
    assert (watch.totals.peak_file, watch.totals.peak_device) == (f"{world.folder}/a.pkl", 0)


def test_least_recently_seen_family_is_forgotten_first(
    world: World, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_FAMILIES", 2)
    for age, name in enumerate(("a1.pkl", "b1.pkl", "a2.pkl", "c1.pkl")):
        world.write(name, snapshot(10), age=100 - age)
    watch = world.watch(now=True, as_json=True)
    lines(watch)
    assert [family[1] for family in watch._last] == ["a#", "c#"]


def test_files_from_several_folders_are_distinguished(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.folder)
    for number, folder in enumerate(("one", "two")):
        world.write(f"{folder}/a.pkl", snapshot(10 + number), age=100 - number)
    assert world.watch("one", "two/", now=True).run() == 0
    _, first, second, _ = capsys.readouterr().out.splitlines()
    assert first.split()[1:3] == ["one/a.pkl", "0"]
    assert second.split()[1:3] == ["two/a.pkl", "0"]
    assert "-" in second.split()  # each folder is a family of its own


def titan(step: int | str, rank: int) -> str:
    return f"iteration_{step}/rank{rank}_memory_snapshot.pickle"


def test_dumps_of_one_rank_form_its_history(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """torchtitan's dumps appear in new folders during the watch, and rank 1 runs out of memory."""
    for at, step in ((2, 10), (12, 20)):
        for rank in (0, 1):
            world.write_at(at, titan(step, rank), snapshot(step + rank))
    world.write_at(22, titan("20_exit", 1), snapshot(90))
    watch = world.watch(timeout=40, as_json=True)
    assert watch.run() == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    folder = str(world.folder)
    assert [
        (
            line["file"].removeprefix(f"{folder}/"),
            line["rank"],
            line["devices"][0]["change_bytes"],
            line["devices"][0]["changed_since"],
        )
        for line in found[:-1]
    ] == [
        (titan(10, 0), 0, None, None),
        (titan(10, 1), 1, None, None),
        (titan(20, 0), 0, 10 * MIB, f"{folder}/{titan(10, 0)}"),
        (titan(20, 1), 1, 10 * MIB, f"{folder}/{titan(10, 1)}"),
        (titan("20_exit", 1), 1, 69 * MIB, f"{folder}/{titan(20, 1)}"),
    ]
    assert (found[-1]["totals"]["snapshot_count"], found[-1]["totals"]["rank_count"]) == (5, 2)


def test_ranks_are_counted_if_every_file_has_one(world: World, capsys: Any) -> None:
    world.write("rank0.pkl", snapshot(5), age=20)
    world.write("other.pkl", snapshot(5), age=10)
    assert world.watch(now=True, as_json=True).run() == 0
    end = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (end["totals"]["snapshot_count"], end["totals"]["rank_count"]) == (2, 0)


def test_ranks_are_found_without_the_word_rank(world: World, lines: Any) -> None:
    for step in (10, 20):
        for rank in (0, 1):
            name = f"step_{step:012d}/{rank:06d}_step_{step}.pickle"
            world.write(name, snapshot(step + rank), age=100 - step - rank)
    found = lines(world.watch(now=True, as_json=True))
    told = [(line["rank"], line["devices"][0]["change_bytes"]) for line in found]
    assert told == [(0, None), (1, None), (0, 10 * MIB), (1, 10 * MIB)]
