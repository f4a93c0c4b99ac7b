"""Snapshots are listed by name, and each is checked once; the time and the number of folders are
limited.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from memreplay.mcp import listing
from memreplay.mcp.allowed import Allowed
from memreplay.mcp.arguments import FilesArguments
from memreplay.mcp.calls import ToolCall
from memreplay.mcp.listing import Checked, list_files, snapshots_below
from tests.unit.mcp.conftest import LEAKY, OOM, Asks, snapshot


def listed(tool_call: ToolCall, checked: Checked | None = None, **given: object) -> list[str]:
    arguments = FilesArguments(**{k: v for k, v in given.items() if k != "seconds"})  # type: ignore[arg-type]
    seconds = {k: v for k, v in given.items() if k == "seconds"}
    lines = list_files(arguments, tool_call, checked or Checked(), **seconds)  # type: ignore[arg-type]
    return [line.text for line in lines]


def test_files_are_listed_with_size_and_time(asks: Asks, folder: Path) -> None:
    for name in ("small.pkl", f"run/{LEAKY}", f"run/{OOM}"):
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))
    n_bytes = (folder / "small.pkl").stat().st_size
    assert listed(asks(folder)) == [
        f"3 snapshots below {folder.resolve()}",
        "file | size | written",
        f"run/{LEAKY} | 163.3 KiB | 2023-11-14 22:13:20 UTC",
        f"run/{OOM} | 116.2 KiB | 2023-11-14 22:13:20 UTC",
        f"small.pkl | {n_bytes} B | 2023-11-14 22:13:20 UTC",
    ]


def test_check_summarizes_each_file(asks: Asks, folder: Path) -> None:
    (folder / "bad.pkl").write_bytes(b"none")
    words = "peak 56.4 MiB, no request failed, leaks: 1 stack keeps 64.0 KiB more a step"
    lines = listed(asks(folder), check=True)
    assert lines[1] == "file | size | found"
    assert lines[2].startswith("bad.pkl | 4 B | not a memory snapshot")
    assert lines[3].startswith(f"run/{LEAKY} | 163.3 KiB | device 0: {words}, over 40 steps")
    ran_out = "device 0: peak 457.5 MiB, memory ran out, leaks: not judged"
    assert lines[4] == f"run/{OOM} | 116.2 KiB | {ran_out}"
    small = "device 0: peak 512 B, no request failed, ends at 100.0% of the peak, leaks: not judged"
    assert small in lines[5]
    assert len(lines) == 6


def test_match_selects_files_by_part_of_their_name(asks: Asks, folder: Path) -> None:
    lines = listed(asks(folder), match="oom")
    assert lines[0] == f"1 of 3 snapshots below {folder.resolve()} with 'oom' in the name"
    assert len(lines) == 3
    assert len(listed(asks(folder), match="nothing")) == 1


@pytest.mark.parametrize("match", ["*oom*", "run/s*.gz", "*oom.pkl.g?"])
def test_match_selects_files_by_pattern(asks: Asks, folder: Path, match: str) -> None:
    assert f"{OOM} | 116.2 KiB" in listed(asks(folder), match=match)[2]
    assert len(listed(asks(folder), match="*.zst")) == 1


def test_folder_without_snapshots_has_a_message(asks: Asks, tmp_path: Path) -> None:
    (line,) = listed(asks(tmp_path))
    assert line.startswith(f"no snapshot below {tmp_path.resolve()}: no file name ends in .pkl")


def test_time_is_bounded_and_a_second_call_continues(
    asks: Asks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, now = Checked(), [0.0]

    def tick() -> float:
        now[0] += 1
        return now[0]

    monkeypatch.setattr("time.monotonic", tick)
    # The clock is read once at the start, then before each unknown file.
    first = listed(asks(folder), checked, check=True, seconds=2.0)
    assert [line.endswith("not checked yet") for line in first[2:5]] == [False, True, True]
    assert first[-1] == "note: 2 files not checked yet; call again to continue"
    second = listed(asks(folder), checked, check=True, seconds=3.0)
    assert second[:3] == first[:3]
    assert not any("not checked" in line for line in second)


def test_replaced_file_is_checked_again(asks: Asks, folder: Path) -> None:
    checked = Checked()
    for count, peak in ((1, "512 B"), (2, "1.5 KiB")):
        (folder / "small.pkl").write_bytes(snapshot(count))
        assert f"peak {peak}" in listed(asks(folder), checked, check=True, match="small")[-1]


def test_number_of_lines_is_bounded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(listing, "_REMEMBERED", 1)
    allowed = Allowed([str(folder)])
    one, two = (allowed.file(f"run/{name}").identity for name in (LEAKY, OOM))
    checked = Checked()
    checked.add(one, "x")
    checked.add(two, "y")
    assert (checked.get(one), checked.get(two)) == (None, "y")


def test_hidden_special_and_outside_files_are_left_out(folder: Path, tmp_path: Path) -> None:
    for name in ("rank10.pkl", "rank2.pickle.zst", ".hidden.pkl", "settings.json"):
        (folder / name).write_bytes(b"")
    (folder / ".git").mkdir()
    (folder / ".git" / "a.pkl").write_bytes(b"")
    os.mkfifo(folder / "pipe.pkl")
    (folder / "out.pkl").symlink_to("/etc/passwd")
    (folder / "again").symlink_to(folder)
    (folder / "link.pkl").symlink_to("small.pkl")
    found, whole = snapshots_below(Allowed([str(folder)]))
    assert whole
    assert found == [
        "link.pkl",
        "rank2.pickle.zst",
        "rank10.pkl",
        f"run/{LEAKY}",
        f"run/{OOM}",
        "small.pkl",
    ]
    only = tmp_path / "only"
    only.mkdir()
    (only / "a.json").write_bytes(b"{}")
    both, _ = snapshots_below(Allowed([str(folder), str(only)]))
    assert f"{folder.resolve()}/small.pkl" in both
    assert snapshots_below(Allowed([str(only)])) == (["a.json"], True)


def page_of(pickle: bytes) -> bytes:
    text = base64.b64encode(pickle).decode()
    return f'<!DOCTYPE html><script>add([{{"name": "a", "base64": "{text}"}}])</script>'.encode()


def test_viewer_pages_with_a_snapshot_are_listed(asks: Asks, folder: Path, tmp_path: Path) -> None:
    page = page_of(snapshot(1))
    (folder / "plots").mkdir()
    for name in ("rank0_trace_plot.html", "rank0_segment_plot.html", "trace_plot.htm"):
        (folder / "plots" / name).write_bytes(page)
    (folder / "plots" / "settings.json").write_bytes(b"{}")
    (folder / "plots" / "notes.html").write_bytes(b"<!DOCTYPE html><p>base64</p>")
    own = b'<!doctype html><meta name="generator" content="memreplay 1.0">' + page
    (folder / "plots" / "own.html").write_bytes(own)
    (folder / "small_trace_plot.html").write_bytes(page)  # small.pkl is next to it
    os.mkfifo(folder / "plots" / "pipe.html")
    (tmp_path / "outside.html").write_bytes(page)
    (folder / "plots" / "out.html").symlink_to(tmp_path / "outside.html")
    found, whole = snapshots_below(Allowed([str(folder)]))
    assert whole
    assert [name for name in found if not name.endswith((".pkl", ".gz"))] == [
        "plots/rank0_trace_plot.html",
        "plots/trace_plot.htm",
    ]
    lines = listed(asks(folder), check=True, match="plots")
    assert [line.partition(": ")[2][:10] for line in lines[2:]] == ["peak 512 B"] * 2


def test_number_of_pages_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_PAGES", 2)
    for n in range(3):
        (folder / f"page{n}.html").write_bytes(page_of(snapshot(1)))
    found, whole = snapshots_below(Allowed([str(folder)]))
    assert ([name for name in found if "page" in name], whole) == (
        ["page0.html", "page1.html"],
        False,
    )


def test_number_of_folders_is_bounded(
    asks: Asks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = folder
    for _ in range(listing.MOST_LEVELS + 1):
        deep /= "d"
    deep.mkdir(parents=True)
    (deep / "deep.pkl").write_bytes(b"")
    note = (
        "note: the folders have more files than this tool searches; start the server with smaller"
        " ones"
    )
    lines = listed(asks(folder))
    assert lines[-1] == note
    assert len(lines) == 6
    monkeypatch.setattr(listing, "MOST_ENTRIES", 4)
    assert listed(asks(folder))[-1] == note
    monkeypatch.setattr(listing, "MOST_ENTRIES", 2)
    assert listed(asks(folder))[0].startswith("no snapshot")


def test_unlistable_folder_is_left_out(asks: Asks, folder: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    scandir = os.scandir

    def denied(path: str):  # type: ignore[no-untyped-def]
        if path.endswith("run"):
            raise PermissionError
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert listed(asks(folder))[2:][0].startswith("small.pkl")


def test_file_deleted_meanwhile_is_left_out(
    asks: Asks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_call = asks(folder)
    monkeypatch.setattr(
        listing, "snapshots_below", lambda allowed: (["small.pkl", "gone.pkl"], True)
    )
    assert len(listed(tool_call)) == 3


def test_names_are_escaped(asks: Asks, folder: Path) -> None:
    (folder / "a\x1b[31m\n.pkl").write_bytes(b"")
    assert any(line.startswith("a\\x1b[31m\\n.pkl | 0 B") for line in listed(asks(folder)))


def test_cancelled_call_stops_the_listing(asks: Asks, folder: Path) -> None:
    from memreplay.mcp.hosts import StoppedError

    tool_call = asks(folder)
    tool_call.stop.set()
    with pytest.raises(StoppedError):
        listed(tool_call)
