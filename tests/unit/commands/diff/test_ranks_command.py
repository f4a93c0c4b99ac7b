"""Tests of commands/diff/ranks_command.py, on small folders."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.render.schemas import check_against

Diff = Callable[..., Result]


def snapshot(size: int, device: int = 0) -> bytes:
    builder = SnapshotBuilder(devices=device + 1)
    builder.alloc(512, 50, frames=[("main", "train.py", 1)], device=device)
    frames = [("forward", "model.py", 7), ("main", "train.py", 1)]
    return build.dump(builder.alloc(4096, size, frames=frames, device=device).build())


def put(folder: Path, **sizes: int) -> None:
    folder.mkdir(exist_ok=True)
    for name, size in sizes.items():
        (folder / f"{name}.pkl").write_bytes(snapshot(size))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Create a base with ranks 0 to 3, and a new run with ranks 1 to 4."""
    put(tmp_path / "base", rank0=100, rank1=900, rank2=1000, rank3=3000)
    put(tmp_path / "new", rank1=1500, rank2=1100, rank3=2900, rank4=100)
    return tmp_path


@pytest.fixture
def diff(runner: CliRunner, run: Path) -> Diff:
    def invoke(*options: str) -> Result:
        return runner.invoke(app, ["diff", str(run / "base"), str(run / "new"), *options])

    return invoke


def as_json(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    check_against("diff_ranks-1.json", found)
    check_against("diff-1.json", found["detail"])
    return found


def test_text_shows_the_rank_that_grew_most(diff: Diff, run: Path) -> None:
    result = diff()
    assert (result.exit_code, result.stderr) == (0, "")
    assert "3 ranks: highest peak 3.0 KiB -> 2.9 KiB requested, -100 B (-3.3%)" in result.stdout
    assert "grew most    rank 1, 950 B -> 1.5 KiB, +600 B (+63.2%)" in result.stdout
    # A long folder name can wrap lines.
    words = " ".join(result.stdout.split())
    assert f"note: rank 0 is only in {run}/base, so not compared" in words
    assert f"note: rank 4 is only in {run}/new, so not compared" in words
    assert f"{run}/new/rank1.pkl  (new)" in result.stdout
    assert "rank 1, device 0: peak 950 B -> 1.5 KiB requested" in result.stdout
    assert "forward  model.py:7" in result.stdout


def test_json_lists_the_ranks(diff: Diff, run: Path) -> None:
    found = as_json(diff("--format", "json", "--top", "1"))
    assert [(one["rank"], one["change_bytes"]) for one in found["ranks"]] == [
        (1, 600),
        (2, 100),
        (3, -100),
    ]
    assert (found["only_base"], found["only_new"], found["not_read"]) == ([0], [4], [])
    assert (found["new"]["max_rank"], found["new"]["max_bytes"]) == (3, 2950)
    assert (found["change"]["max_rank"], found["change"]["median_bytes"]) == (1, 100)
    assert found["detail_rank"] == 1
    assert found["detail"]["new_file"] == str(run / "new" / "rank1.pkl")
    (device,) = found["detail"]["devices"]
    assert [row["change_bytes"] for row in device["rows"]] == [600]


def test_detail_matches_a_diff_of_the_files(diff: Diff, run: Path, runner: CliRunner) -> None:
    options = [
        "--format",
        "json",
        "--by",
        "function",
        "--at",
        "0",
        "--unchanged",
        "--measure",
        "held",
    ]
    found = as_json(diff("--rank", "2", *options))
    files = [str(run / side / "rank2.pkl") for side in ("base", "new")]
    assert found["detail"] == json.loads(runner.invoke(app, ["diff", *files, *options]).stdout)
    assert found["measure"] == "held"
    assert found["moment"]["value"] == 0
    assert {one["change_bytes"] for one in found["ranks"]} == {0}


def test_rank_shown_in_detail_can_be_chosen(diff: Diff) -> None:
    for options, rank in ((["--rank", "worst"], 3), (["--rank", "2"], 2), ([], 1)):
        assert as_json(diff("--format", "json", *options))["detail_rank"] == rank
    result = diff("--rank", "4")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "memreplay: error: no rank 4; both folders have ranks 1 to 3\n"


def test_filters_apply_to_all_ranks(diff: Diff) -> None:
    found = as_json(diff("--format", "json", "--only", "min-bytes=1200B"))
    assert [(one["base_bytes"], one["new_bytes"]) for one in found["ranks"]] == [
        (0, 1500),
        (0, 0),
        (3000, 2900),
    ]
    result = diff("--only", "stream=9")
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 6


def test_bad_file_is_named_and_the_rest_shown(diff: Diff, run: Path) -> None:
    (run / "base" / "rank1.pkl").write_bytes(b"no snapshot")
    (run / "new" / "rank1.pkl").write_bytes(snapshot(10)[:-40])
    result = diff()
    assert result.exit_code == 4
    bad, cut = result.stderr.splitlines()
    assert bad.startswith(f"memreplay: error: {run}/base/rank1.pkl: ")
    assert cut.startswith(f"memreplay: error: {run}/new/rank1.pkl: ")
    assert "2 ranks: highest" in result.stdout
    assert "warning: rank 1 couldn't be compared; see the errors" in result.stdout
    assert "rank 2, device 0: peak" in result.stdout
    result = diff("--rank", "1", "--format", "json")
    assert result.exit_code == 4
    found = json.loads(result.stdout)
    check_against("diff_ranks-1.json", found)
    assert (found["not_read"], found["detail_rank"], found["detail"]) == ([1], None, None)


def test_error_if_no_rank_can_be_read(diff: Diff, run: Path) -> None:
    for rank in (1, 2, 3):
        (run / "new" / f"rank{rank}.pkl").write_bytes(b"no snapshot")
    result = diff("--format", "json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert len(result.stderr.splitlines()) == 3


def test_file_may_be_deleted_before_its_groups_are_read(
    diff: Diff, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memreplay.commands.diff import ranks_command, ranks_find

    def choose(*_: object) -> object:
        (run / "new" / "rank1.pkl").unlink()
        return original(*_)  # type: ignore[arg-type]

    original = ranks_find.chosen_rank
    monkeypatch.setattr(ranks_command, "chosen_rank", choose)
    result = diff("--format", "json")
    assert result.exit_code == 3
    assert result.stderr.endswith("rank1.pkl: no such file\n")
    found = json.loads(result.stdout)
    check_against("diff_ranks-1.json", found)
    assert (len(found["ranks"]), found["detail_rank"], found["detail"]) == (3, None, None)


def test_truncated_rank_is_read_with_salvage(diff: Diff, run: Path) -> None:
    (run / "new" / "rank2.pkl").write_bytes(snapshot(1100)[:-40])
    assert diff().exit_code == 4
    result = diff("--salvage")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "warning: new, rank 2: the file is cut off" in result.stdout


def test_strict_fails_for_untrusted_numbers(diff: Diff) -> None:
    assert diff("--strict").exit_code == 1


def test_ranks_are_compared_despite_different_device_numbers(
    runner: CliRunner, tmp_path: Path
) -> None:
    """One launcher gives each rank its own device number; another calls every rank's device 0."""
    for folder, device in (("base", 0), ("new", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rank3.pkl").write_bytes(snapshot(900, device))
    args = ["diff", str(tmp_path / "base"), str(tmp_path / "new")]
    found = as_json(runner.invoke(app, [*args, "--format", "json"]))
    (rank,) = found["ranks"]
    assert (rank["base"]["device"], rank["new"]["device"]) == (0, 3)
    (device,) = found["detail"]["devices"]
    assert (device["base_device"], device["device"]) == (0, 3)


def test_extra_device_is_ignored(runner: CliRunner, tmp_path: Path) -> None:
    """A rank may also have a few bytes on device 0, although it trains on another device."""
    for folder, size in (("base", 900), ("new", 1000)):
        (tmp_path / folder).mkdir()
        builder = SnapshotBuilder(devices=2).alloc(512, 10)
        builder.alloc(4096, size, device=1).alloc(8192, 70, device=1)
        (tmp_path / folder / "rank1.pkl").write_bytes(build.dump(builder.build()))
    args = ["diff", str(tmp_path / "base"), str(tmp_path / "new")]
    found = as_json(runner.invoke(app, [*args, "--at", "1", "--format", "json"]))
    assert [(one["device"], one["change_bytes"]) for one in found["ranks"]] == [(1, 100)]
    assert [one["device"] for one in found["detail"]["devices"]] == [1]
    text = runner.invoke(app, args).stdout
    assert "note: several devices in rank 1; only the one that holds most" in text


def test_rank_without_a_common_device_is_an_error(diff: Diff, run: Path) -> None:
    (run / "new" / "rank2.pkl").write_bytes(build.dump(SnapshotBuilder(devices=2).build()))
    result = diff()
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith("rank2.pkl: rank 2 has no device in common: device 0 in the base, none in"
                         " the new run")  # fmt: skip
    assert "2 ranks" in result.stdout


def test_incomparable_folders_are_an_error(runner: CliRunner, run: Path) -> None:
    def fails(code: int, *args: str) -> str:
        result = runner.invoke(app, ["diff", *args])
        assert (result.exit_code, result.stdout) == (code, "")
        return result.stderr.removeprefix("memreplay: error: ").rstrip("\n")

    base, file = str(run / "base"), str(run / "base" / "rank0.pkl")
    words = f"{base} is a folder and {file} isn't one: give two files or two folders"
    assert fails(2, base, file) == words
    assert fails(2, file, base) == words
    assert "--rank needs two folders of rank files, not two files" in fails(
        2, file, file, "--rank", "1"
    )
    assert "is a folder and /no/such doesn't exist" in fails(2, base, "/no/such")
    empty = run / "empty"
    empty.mkdir()
    assert fails(2, base, str(empty)).startswith(f"{empty}: no snapshot in this folder")
    both = fails(2, str(empty), str(empty))
    assert len(both.splitlines()) == 2
    put(run / "others", rank7=1, rank8=1)
    assert fails(2, base, str(run / "others")) == (
        "no rank in common: ranks 0 to 3 in the base, ranks 7, 8 in the new run"
    )
    put(run / "doubled", a_rank0=1, b_rank0=1)
    assert "doubled: two files have rank 0" in fails(2, str(run / "doubled"), base)
    assert "reserved memory is grouped by pool" in fails(
        2, base, base, "--measure", "reserved", "--by", "stack"
    )


def test_names_without_a_rank_are_reported(diff: Diff, run: Path) -> None:
    put(run / "new", merged=5)
    assert "left out because the name has no rank:" in diff().stdout
    assert as_json(diff("--format", "json"))["unranked_files"] == [str(run / "new" / "merged.pkl")]


def test_hostile_names_are_escaped(runner: CliRunner, run: Path) -> None:
    name = os.fsdecode(b"rank1\n\x1b[2J\xff" + b"x" * 200 + b".pkl")
    for folder in ("base", "new"):
        (run / folder / "rank1.pkl").rename(run / folder / name)
    (run / "new" / (os.fsdecode(b"rank2\n\x1b[2J\xfe") + ".pkl")).write_bytes(b"")
    (run / "new" / "rank2.pkl").unlink()
    result = runner.invoke(app, ["diff", str(run / "base"), str(run / "new")])
    assert result.exit_code in (3, 4)
    (line,) = result.stderr.splitlines()
    assert r"rank2\n\x1b[2J\udcfe.pkl" in line
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout + result.stderr)
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_unlistable_folder_is_an_error(diff: Diff, run: Path) -> None:
    (run / "new").chmod(0)
    result = diff()
    (run / "new").chmod(0o700)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "permission denied; check the file's owner and mode" in result.stderr
