"""files: choosing the dumps to check if ranks have several."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from memreplay.commands.gate.files import gate_files_of
from memreplay.errors import UsageError
from tests.commanding import command_runner
from tests.layouts import MIB, put_snapshot, refuse_folder


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ignore the CI job's environment and the configuration of the current folder."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runner() -> CliRunner:
    return command_runner()


def put_run(folder: Path, *steps: int, kept: int = 0) -> Path:
    """Write torchtitan's dumps of two ranks. At step s, rank r held at most s + r MiB."""
    for step in steps:
        for rank in (0, 1):
            path = folder / f"iteration_{step}" / f"rank{rank}_memory_snapshot.pickle"
            put_snapshot(path, step + rank, kept=kept)
    return folder


def gate(runner: CliRunner, *arguments: str) -> Result:
    return runner.invoke(app, ["gate", *arguments], prog_name="memreplay")


def judged(done: Result) -> list[tuple[str, int | None, str | None]]:
    files = json.loads(done.stdout)["files"]
    return [(one["file"], one["rank"], one["dump"]) for one in files]


@pytest.mark.parametrize("named", ["folder", "pattern", "files"])
def test_newest_dump_of_each_rank_is_judged(runner: CliRunner, tmp_path: Path, named: str) -> None:
    put_run(tmp_path / "run", 9, 10)
    files = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.pickle"))]
    arguments = {"folder": ["run"], "pattern": ["run/**/*.pickle"], "files": files}[named]
    done = gate(runner, *arguments, "--max-peak", "1GiB", "--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert judged(done) == [
        (f"run/iteration_10/rank{rank}_memory_snapshot.pickle", rank, "iteration_10")
        for rank in (0, 1)
    ]
    assert json.loads(done.stdout)["dumps_choice"] == (
        "each rank has several dumps (iteration_9, iteration_10): the newest is judged; --dump NAME"
        " chooses another, --dump each all of them"
    )


def test_messages_name_the_rank_and_dump(runner: CliRunner, tmp_path: Path) -> None:
    put_run(tmp_path / "run", 9, 10)
    done = gate(runner, "run", "--max-peak", "10MiB")
    assert done.exit_code == 1
    assert done.stdout.startswith("FAIL rank 1, iteration_10: peak held 11.0 MiB > 10 MiB (")
    words = " ".join(done.stdout.split())
    assert "note: each rank has several dumps (iteration_9, iteration_10): the newest" in words
    done = gate(runner, "run", "--max-peak", "10MiB", "--format", "github")
    assert "::rank 1, iteration_10: peak held 11.0 MiB" in done.stdout
    assert "::each rank has several dumps" in done.stdout


def test_another_dump_can_be_chosen(runner: CliRunner, tmp_path: Path) -> None:
    put_run(tmp_path / "run", 9, 10)
    done = gate(runner, "run", "--max-peak", "10MiB", "--dump", "iteration_9", "--format", "json")
    assert done.exit_code == 0
    assert [dump for _, _, dump in judged(done)] == ["iteration_9"] * 2
    done = gate(runner, "run", "--max-peak", "9MiB", "--dump", "iteration_9")
    assert done.stdout.startswith("FAIL rank 1, iteration_9: peak held 10.0 MiB > 9 MiB")
    assert "several dumps" not in done.stdout
    done = gate(runner, "run", "--max-peak", "1GiB", "--dump", "iteration_8")
    assert done.exit_code == 2
    assert (
        "--dump iteration_8: no file belongs to this dump; known dumps: iteration_9, iteration_10"
        in (done.stderr)
    )


def test_all_dumps_can_be_judged(runner: CliRunner, tmp_path: Path) -> None:
    """Spreads compare ranks within one dump, so growth from step 100 to 1000 doesn't count."""
    put_run(tmp_path / "run", 100, 1000)
    done = gate(runner, "run", "--max-spread", "1%", "--dump", "each", "--format", "json")
    assert done.exit_code == 0, done.stdout
    report = json.loads(done.stdout)
    assert len(report["files"]) == 4
    spreads = [one for one in report["kept"] if one["kind"] == "max_spread"]
    assert [(one["median_bytes"], one["count"]) for one in spreads] == [
        (100 * MIB + MIB // 2, 2),
        (1000 * MIB + MIB // 2, 2),
    ]
    assert gate(runner, "run", "--max-peak", "1000MiB", "--dump", "each").stdout.startswith(
        "FAIL rank 1, iteration_1000: "
    )


def test_one_dump_needs_no_choice(runner: CliRunner, tmp_path: Path) -> None:
    put_run(tmp_path / "run", 9)
    done = gate(runner, "run", "--max-peak", "1GiB", "--format", "json")
    report = json.loads(done.stdout)
    assert [(one["rank"], one["dump"]) for one in report["files"]] == [(0, None), (1, None)]
    assert report["dumps_choice"] == ""
    found = gate_files_of(("-",), None)
    assert [(one.path, one.rank, one.dump) for one in found.files] == [("-", None, "")]


def test_dumps_of_two_runs_are_an_error(tmp_path: Path) -> None:
    for run in ("a", "b"):
        put_run(tmp_path / run, 9)
    with pytest.raises(
        UsageError,
        match="the same rank and step; pass one run's folder",
    ):
        gate_files_of(("a", "b"), None)


def test_newer_dumps_in_subfolders_are_judged(runner: CliRunner, tmp_path: Path) -> None:
    """Folders of all levels are searched, as in `fleet`."""
    for rank in (0, 1):
        put_snapshot(tmp_path / "run" / f"step_4_rank{rank}.pickle", 5)
        put_snapshot(tmp_path / "run" / "step_5" / f"rank{rank}.pickle", 50)
    put_snapshot(tmp_path / "run" / "a/b/c/d/e/f" / "step_6_rank2.pickle", 60)
    done = gate(runner, "run", "--max-peak", "40MiB", "--format", "json")
    assert done.exit_code == 1
    assert [(rank, dump) for _, rank, dump in judged(done)] == [
        (2, "step_6"),
        (0, "step_5"),
        (1, "step_5"),
    ]
    assert not any(one["passed"] for one in json.loads(done.stdout)["files"])


def test_pages_next_to_their_snapshots_are_left_out(runner: CliRunner, tmp_path: Path) -> None:
    """A shell's pattern may match pages, too. They aren't judged, or reported as missing ranks."""
    for rank in (0, 1):
        put_snapshot(tmp_path / "run" / f"rank{rank}.pickle", 50)
    done = runner.invoke(app, ["export", "run/rank0.pickle", "-o", "run/rank7.html"])
    assert done.exit_code == 0, done.output
    pickled = base64.b64encode(put_snapshot(tmp_path / "small.pickle", 1).read_bytes()).decode()
    page = f"<!DOCTYPE html>\n<script>add([{{'name': 'a', \"base64\": \"{pickled}\"}}])</script>"
    (tmp_path / "run" / "rank0_trace_plot.html").write_text(page)
    files = [f"run/{path.name}" for path in sorted((tmp_path / "run").iterdir())]
    done = gate(runner, *files, "--max-peak", "60MiB", "--format", "json")
    assert done.exit_code == 0
    assert [name for name, *_ in judged(done)] == ["run/rank0.pickle", "run/rank1.pickle"]
    assert json.loads(done.stdout)["missing_ranks"] == []
    assert done.stderr == (
        "memreplay: run/rank0_trace_plot.html and 1 more left out: pages next to their snapshots\n"
    )
    # Without a pickle, pages are read, and unreadable ones are reported.
    done = gate(runner, "run/rank0_trace_plot.html", "--max-peak", "60MiB")
    assert (done.exit_code, done.stderr) == (0, "")
    done = gate(runner, "run/rank7.html", "--max-peak", "60MiB")
    assert "a page written by memreplay" in done.stderr


def test_spreads_compare_only_one_step(runner: CliRunner, tmp_path: Path) -> None:
    put_run(tmp_path / "run", 10)
    put_snapshot(tmp_path / "run/iteration_20/rank1_memory_snapshot.pickle", 1000)
    done = gate(runner, "run", "--max-spread", "20%")
    assert done.exit_code == 1
    words = " ".join(done.stdout.split())
    assert "couldn't be checked: it needs several files of one dump" in words
    assert (
        " are from different steps: iteration_10 of rank 0, iteration_20 of rank 1; --dump" in words
    )
    done = gate(runner, "run", "--max-spread", "20%", "--dump", "iteration_10")
    assert (done.exit_code, "different" in done.stdout) == (0, False)


@pytest.mark.parametrize("named", ["folder", "files"])
def test_last_rank_may_lack_the_dump(runner: CliRunner, tmp_path: Path, named: str) -> None:
    put_run(tmp_path / "run", 9, 10)
    put_snapshot(tmp_path / "run/iteration_9/rank2_memory_snapshot.pickle", 5)
    files = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.pickle"))]
    arguments = ["run"] if named == "folder" else files
    done = gate(runner, *arguments, "--max-peak", "1GiB", "--dump", "iteration_10")
    assert done.exit_code == 0
    assert "note: no file of rank 2" in done.stdout
    done = gate(runner, *arguments, "--max-peak", "1GiB", "--dump", "iteration_9")
    assert "no file of" not in done.stdout


def test_unlistable_folder_fails_and_others_are_judged(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_run(tmp_path / "run", 9, 10)
    refuse_folder(monkeypatch, "iteration_10")
    done = gate(runner, "run", "--max-peak", "1GiB", "--format", "json")
    assert done.exit_code == 3
    words = "the folder cannot be listed: permission denied; skipped"
    assert done.stderr == f"memreplay: error: run/iteration_10: {words}\n"
    files = json.loads(done.stdout)["files"]
    assert [(one["file"], one["error"], one["passed"]) for one in files] == [
        ("run/iteration_10", words, False),
        *((f"run/iteration_9/rank{rank}_memory_snapshot.pickle", None, True) for rank in (0, 1)),
    ]


# ---- bases


def grown(done: Result) -> list[tuple[str, int]]:
    """Return each file's base, and the number of bytes by which the file exceeds it."""
    report = json.loads(done.stdout)
    kept = [one for one in report["kept"] if one["kind"] != "trust"]
    return [
        (file["base_file"], finding["change_bytes"])
        for file, finding in zip(report["files"], kept, strict=True)
    ]


def test_base_is_the_same_or_the_newest_dump(runner: CliRunner, tmp_path: Path) -> None:
    put_run(tmp_path / "run", 9, 20)
    put_run(tmp_path / "base", 9, 10)
    arguments = ("run", "--base", "base", "--max-growth-bytes", "1GiB", "--format", "json")
    assert grown(gate(runner, *arguments)) == [
        (f"base/iteration_10/rank{rank}_memory_snapshot.pickle", 10 * MIB) for rank in (0, 1)
    ]
    assert grown(gate(runner, *arguments, "--dump", "iteration_9")) == [
        (f"base/iteration_9/rank{rank}_memory_snapshot.pickle", 0) for rank in (0, 1)
    ]


def test_base_has_the_same_rank_and_step_despite_other_names(
    runner: CliRunner, tmp_path: Path
) -> None:
    """verl's dumps have the process number in their names."""
    for folder, pid, steps in (("run", 7, (9, 10)), ("base", 8, (9, 10, 11))):
        for step in steps:
            name = f"step{step}/torch_memory_rank0_pid{pid}.pickle"
            put_snapshot(tmp_path / folder / name, step + pid)
    arguments = ("run", "--base", "base", "--max-growth-bytes", "1GiB", "--format", "json")
    for more in ((), ("--dump", "step10")):
        found = gate(runner, *arguments, *more)
        assert grown(found) == [("base/step10/torch_memory_rank0_pid8.pickle", -MIB)]


def test_baselines_match_ranks(runner: CliRunner, tmp_path: Path) -> None:
    """torchtitan's dumps have the step in their names, and these steps may differ."""
    (tmp_path / "bases").mkdir()
    for rank in (0, 1):
        for step, folder in ((10, "old"), (20, "run")):
            name = f"{rank:06d}_step_{step}.pickle"
            put_snapshot(tmp_path / folder / f"step_{step:012d}" / name, step + rank)
        old = f"old/step_{10:012d}/{rank:06d}_step_10.pickle"
        written = runner.invoke(app, ["gate", old, "--save-base", f"bases/{rank:06d}_step_10.json"])
        assert written.exit_code == 0, written.output
    found = gate(runner, "run", "--base", "bases", "--max-growth", "1000%", "--format", "json")
    assert grown(found) == [(f"bases/{rank:06d}_step_10.json", 10 * MIB) for rank in (0, 1)]
    put_snapshot(tmp_path / "run" / f"step_{20:012d}" / "000007_step_20.pickle", 5)
    found = gate(runner, "run", "--base", "bases", "--max-growth", "1000%")
    assert found.exit_code == 2
    assert "bases has no base for it; looked for 000007_step_20.json" in found.stderr


def test_base_of_a_single_process_may_be_from_another_step(
    runner: CliRunner, tmp_path: Path
) -> None:
    for folder, step in (("run", 9), ("run", 10), ("base", 5)):
        put_snapshot(tmp_path / folder / f"step_{step}.pickle", step)
    found = gate(runner, "run", "--base", "base", "--max-growth-bytes", "1GiB", "--format", "json")
    assert grown(found) == [("base/step_5.pickle", 5 * MIB)]
    put_snapshot(tmp_path / "run" / "other.pickle", 5)
    found = gate(runner, "run", "--base", "base", "--max-growth-bytes", "1GiB")
    assert found.exit_code == 2
    assert "base has no base for it; looked for " in found.stderr


def test_spread_compares_the_devices_of_one_file(runner: CliRunner, tmp_path: Path) -> None:
    put_snapshot(tmp_path / "snap.pickle", 50, 200)
    done = gate(runner, "snap.pickle", "--max-spread", "5%")
    assert done.exit_code == 1
    assert done.stdout.startswith(
        "FAIL peak held on device 1 +60.0% over the median of 2 devices > +5% (125.0 MiB -> "
    )
    assert gate(runner, "snap.pickle", "--max-spread", "60%").exit_code == 0
    shown = gate(runner, "snap.pickle", "--max-peak", "1GiB").stdout
    assert [line.split("  ")[-1] for line in shown.splitlines() if line.startswith("ok")] == [
        "peak held on device 0",
        "peak held on device 1",
    ]
