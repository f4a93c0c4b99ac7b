"""Tests of commands/gate/saving.py: the file that --save-base writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.render.schemas import check_against

EXAMPLE = str(ROOT / "tests/data" / "transformer_step.pkl.gz")
DEEPER = str(ROOT / "tests/data" / "transformer_deeper.pkl.gz")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def baseline(runner: CliRunner, *arguments: str) -> Result:
    """Run `memreplay gate FILE --save-base`, which writes to stdout unless -o names a file."""
    given = [*arguments, *(() if "-o" in arguments else ("-o", "-"))]
    return runner.invoke(app, ["gate", *("--save-base" if one == "-o" else one for one in given)])


def test_file_is_small_and_deterministic(runner: CliRunner, tmp_path: Path) -> None:
    done = baseline(runner, EXAMPLE, "-o", "base.json")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    data = (tmp_path / "base.json").read_bytes()
    assert len(data) < 24_000
    check_against("baseline-1.json", json.loads(data))
    assert baseline(runner, EXAMPLE).stdout_bytes == data
    done = baseline(runner, EXAMPLE, "-o", "base.json")
    assert done.exit_code == 2
    assert "base.json already exists; give --force to replace it" in done.stderr
    assert baseline(runner, EXAMPLE, "-o", "base.json", "--force", "--top", "1").exit_code == 0
    assert len((tmp_path / "base.json").read_bytes()) < len(data)


def test_file_has_no_paths_of_the_machine(runner: CliRunner) -> None:
    assert json.loads(baseline(runner, EXAMPLE).stdout)["file"] == "transformer_step.pkl.gz"


def test_untrustworthy_snapshot_is_not_saved(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(build.dump(SnapshotBuilder().alloc(512, 90).build()))
    done = baseline(runner, "x.pkl", "-o", "base.json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "x.pkl: held bytes of device 0 can't be trusted (no_segments;" in done.stderr
    assert not (tmp_path / "base.json").exists()
    assert baseline(runner, "x.pkl", "-o", "base.json", "--allow-untrusted").exit_code == 0
    # The baseline still says that it isn't trustworthy.
    gate = ["gate", EXAMPLE, "--base", "base.json", "--max-growth-bytes", "1TiB"]
    done = runner.invoke(app, gate)
    assert done.exit_code == 1
    assert done.stdout.startswith("FAIL base base.json: held bytes can't be trusted: no_segments")
    assert runner.invoke(app, [*gate, "--allow-untrusted"]).exit_code == 0


def test_errors_write_no_file(runner: CliRunner, tmp_path: Path) -> None:
    assert baseline(runner, "nowhere.pkl", "-o", "base.json").exit_code == 3
    assert not (tmp_path / "base.json").exists()
    assert baseline(runner, EXAMPLE, "-o", "no/such/base.json").exit_code == 2
    assert baseline(runner, EXAMPLE, "--measure", "reserved").exit_code == 2
    (tmp_path / "memreplay.toml").write_text("[[gate]]\nmax_peak = 'x'\n", encoding="utf-8")
    done = baseline(runner, EXAMPLE, "--config", "memreplay.toml")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "memreplay.toml: gate table 1: max_peak: 'x' is not a size" in done.stderr


def test_diff_accepts_a_baseline(runner: CliRunner) -> None:
    for measure in ("held", "active"):
        done = baseline(runner, EXAMPLE, "-o", "base.json", "--force", "--measure", measure)
        assert done.exit_code == 0
        done = runner.invoke(app, ["diff", "base.json", DEEPER, "--format", "json", "--top", "0"])
        assert done.exit_code == 0, done.stderr
        found = json.loads(done.stdout)
        check_against("diff-1.json", found)
        direct = ["diff", EXAMPLE, DEEPER, "--measure", measure, "--format", "json", "--top", "0"]
        expected = json.loads(runner.invoke(app, direct).stdout)
        (ours,), (theirs,) = found["devices"], expected["devices"]
        assert found["measure"] == measure
        for key in ("base_bytes", "new_bytes", "change_bytes"):
            assert ours[key] == theirs[key]
        assert sum(row["change_bytes"] for row in ours["rows"]) == ours["change_bytes"]
        assert ours["rows"][0]["change_bytes"] == theirs["rows"][0]["change_bytes"]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--at", "end"], "base.json is a baseline, which only has the peak of all memory"),
        (
            ["--by", "file"],
            "base.json is a baseline, which only has groups by stack and of all memory",
        ),
        (
            ["--only", "min-bytes=4K"],
            "base.json is a baseline, which only has groups by stack and of all memory",
        ),
        (["--measure", "active"], "base.json is a baseline of held bytes, without groups of act"),
        (
            ["--only", "pool=default"],
            "base.json is a baseline, which only has the peak of all memory",
        ),
    ],
)
def test_diff_says_what_a_baseline_lacks(runner: CliRunner, options: list[str], words: str) -> None:
    assert baseline(runner, EXAMPLE, "-o", "base.json").exit_code == 0
    done = runner.invoke(app, ["diff", "base.json", DEEPER, *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_negative_device_fits_the_schemas(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    segment = {"device": -1, "address": 1 << 21, "total_size": 1 << 21, "blocks": []}
    whole = {"segments": [segment], "device_traces": [[]]}
    (tmp_path / "snap.pkl").write_bytes(build.dump(whole))
    assert baseline(runner, "snap.pkl", "-o", "b.json", "--allow-untrusted").exit_code == 0
    check_against("baseline-1.json", json.loads((tmp_path / "b.json").read_bytes()))
    asked = ["snap.pkl", "--base", "b.json", "--max-growth", "2%", "--allow-untrusted"]
    done = runner.invoke(app, ["gate", *asked, "--format", "json"])
    assert (done.exit_code, done.stderr) == (0, "")
    check_against("gate-1.json", json.loads(done.stdout))
    for command in ("peak", "summary", "allocations"):
        done = runner.invoke(app, [command, "snap.pkl", "--format", "json"])
        assert done.exit_code == 0
        check_against(f"{command}-1.json", json.loads(done.stdout))


def test_range_is_saved_and_a_different_range_is_reported(
    runner: CliRunner, tmp_path: Path
) -> None:
    part = ["--from", "100", "--to", "20ms"]
    assert baseline(runner, EXAMPLE, "-o", "all.json").exit_code == 0
    assert baseline(runner, EXAMPLE, "-o", "part.json", *part).exit_code == 0
    whole, found = (json.loads((tmp_path / f"{one}.json").read_bytes()) for one in ("all", "part"))
    assert whole["range"] == {"start": None, "stop": None}
    assert found["range"] == {
        "start": {"kind": "event", "value": 100},
        "stop": {"kind": "elapsed", "value": 20_000},
    }
    check_against("baseline-1.json", found)
    del whole["range"]
    (tmp_path / "old.json").write_text(json.dumps(whole))
    other = "the base covers --from 100 --to 20ms, this covers all events"
    for base, more, words in (
        ("part.json", [], other),
        ("part.json", part, ""),
        ("all.json", [], ""),
        ("all.json", part[:2], "the base covers all events, this covers --from 100"),
        ("old.json", part, ""),  # unknown
    ):
        gate = ["gate", EXAMPLE, "--base", base, "--max-growth-bytes", "1TiB", *more]
        done = runner.invoke(app, gate)
        assert done.exit_code == 0
        assert (words or "the base covers") in done.stdout.replace("\n", " ") or not words
        assert ("the base covers" in done.stdout) is bool(words)
        notes = json.loads(runner.invoke(app, [*gate, "--format", "json"]).stdout)
        assert len(notes["files"][0]["notes"]) == bool(words)
        diff = ["diff", base, EXAMPLE, *more]
        done = runner.invoke(app, diff)
        assert (done.exit_code, "the base covers" in done.stdout) == (0, bool(words))
        found = json.loads(runner.invoke(app, [*diff, "--format", "json"]).stdout)
        check_against("diff-1.json", found)
        assert found["ranges_differ"] is bool(words)


def test_only_gate_accepts_a_folder_of_baselines(runner: CliRunner, tmp_path: Path) -> None:
    for name in ("bases", "run"):
        (tmp_path / name).mkdir()
    for rank in (0, 1):
        (tmp_path / f"run/rank{rank}.pkl.gz").write_bytes(Path(EXAMPLE).read_bytes())
        assert baseline(runner, EXAMPLE, "-o", f"bases/rank{rank}.json").exit_code == 0
    for folders in (("bases", "run"), ("run", "bases")):
        done = runner.invoke(app, ["diff", *folders])
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == (
            "memreplay: error: bases: rank0.json in it is a baseline; use memreplay gate"
            " RUN/ --base bases, or memreplay diff with one baseline and a snapshot\n"
        )
    gate = ["gate", "run", "--base", "bases", "--max-growth", "1%"]
    assert runner.invoke(app, gate).exit_code == 0
    assert runner.invoke(app, ["diff", "bases/rank0.json", "run/rank0.pkl.gz"]).exit_code == 0


@pytest.mark.parametrize("reason", ["ring_overflow", "no_events"])
def test_no_baseline_is_saved_if_an_earlier_peak_is_hidden(
    runner: CliRunner, tmp_path: Path, reason: str
) -> None:
    """Growth couldn't be judged with such a baseline."""
    made = SnapshotBuilder()
    if reason == "ring_overflow":
        made.alloc(1, 9).finish_segments().top("trace_alloc_overflowed", True)
    else:
        made.segment(4096, 2**21, blocks=[made.block(4096, 2**21)])
    (tmp_path / "snap.pkl").write_bytes(build.dump(made.build()))
    done = baseline(runner, "snap.pkl", "-o", "b.json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"held bytes of device 0 can't be trusted ({reason};" in done.stderr
    assert baseline(runner, "snap.pkl", "-o", "b.json", "--allow-untrusted").exit_code == 0


@pytest.mark.parametrize(
    "options, words",
    [
        (("--max-peak", "1GiB"), "--save-base doesn't check limits; leave out --max-peak, or run"),
        (("--forbid", "oom", "--base", "b.json"), "leave out --forbid oom, --base,"),
        (("--phase", "each"), "leave out --phase,"),
        (("--dump", "each"), "leave out --dump,"),
        ((DEEPER,), "--save-base takes one FILE; run it for each"),
    ],
)
def test_saving_without_limits_says_that_nothing_was_judged(
    runner: CliRunner, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = baseline(runner, EXAMPLE, *options, "-o", "base.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr
    assert not (tmp_path / "base.json").exists()


def test_snapshot_is_not_replaced(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "snap.pkl.gz").write_bytes(Path(EXAMPLE).read_bytes())
    done = baseline(runner, "snap.pkl.gz", "-o", "snap.pkl.gz", "--force")
    assert done.exit_code == 2
    assert ": it's the input snapshot" in done.stderr
