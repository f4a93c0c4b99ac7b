"""Tests of commands/gate/command.py, on small files and the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memreplay.commands.app import app
from tests import build
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.unit.render.schemas import check_against

EXAMPLE = str(ROOT / "tests/data" / "transformer_step.pkl.gz")
DEEPER = str(ROOT / "tests/data" / "transformer_deeper.pkl.gz")
LEAKY = str(ROOT / "tests/data" / "leaky_training.pkl.gz")
OOM = str(ROOT / "tests/data" / "serving_oom.pkl.gz")


@pytest.fixture(autouse=True)
def no_runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ignore the CI job's environment and the configuration of the current folder."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def gate(runner: CliRunner, *arguments: str) -> Result:
    return runner.invoke(app, ["gate", *arguments])


@pytest.fixture
def base(runner: CliRunner, tmp_path: Path) -> str:
    path = str(tmp_path / "base.json")
    assert gate(runner, EXAMPLE, "--save-base", path).exit_code == 0
    return path


# ---- the first line, and exit codes


@pytest.mark.parametrize("boiled", [True, False])
def test_failing_line_names_the_cause(runner: CliRunner, base: str, boiled: bool) -> None:
    done = gate(runner, DEEPER, "--base", base if boiled else EXAMPLE, "--max-peak", "5GiB")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == (
        "FAIL peak held 5.5 GiB > 5 GiB (+355.7 MiB since base; +96.0 MiB in forward model.py:72)"
    )


def test_passing_line_shows_the_growth(runner: CliRunner, base: str) -> None:
    done = gate(runner, EXAMPLE, "--base", base, "--max-growth", "0%", "--max-peak", "38 GiB")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == (
        "PASS peak held grew by 0 B (0.0%), within the limit of 0% (5.1 GiB -> 5.1 GiB);"
        " 1 more passed"
    )


def test_unreadable_files_fail(runner: CliRunner, tmp_path: Path) -> None:
    done = gate(runner, "nowhere.pkl", "--max-peak", "1GiB")
    assert done.exit_code == 3
    assert done.stdout.splitlines()[0] == "FAIL nowhere.pkl: no such file"
    assert done.stderr == "memreplay: error: nowhere.pkl: no such file\n"
    (tmp_path / "no.pkl").write_bytes(b"this is no snapshot")
    assert gate(runner, "no.pkl", "--max-peak", "1GiB").exit_code == 3
    whole = build.dump(record(1, steps=50).snapshot)
    (tmp_path / "cut.pkl").write_bytes(whole[: len(whole) * 2 // 3])
    done = gate(runner, "cut.pkl", "--max-peak", "1TiB")
    assert done.exit_code == 4
    assert done.stdout.startswith("FAIL cut.pkl: ")
    salvaged = gate(runner, "cut.pkl", "--max-peak", "1TiB", "--salvage")
    assert salvaged.exit_code == 1
    assert "truncated" in salvaged.stdout
    allowed = gate(runner, "cut.pkl", "--max-peak", "1TiB", "--salvage", "--allow-untrusted")
    assert allowed.exit_code == 0


def test_highest_exit_code_wins(runner: CliRunner) -> None:
    done = gate(runner, EXAMPLE, "nowhere.pkl", DEEPER, "--max-peak", "5.2GiB")
    assert done.exit_code == 3
    assert done.stdout.splitlines()[0].startswith("FAIL nowhere.pkl: no such file; 1 more")
    assert gate(runner, EXAMPLE, DEEPER, "--max-peak", "5.2GiB").exit_code == 1
    assert gate(runner, EXAMPLE, DEEPER, "--max-peak", "6GiB").exit_code == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), "no limit is set; give one of --max-peak, --max-growth,"),
        (("--max-growth", "2%"), "the command line limits growth; give the base with --base"),
        (("--max-peak", "much"), "'much' is not a size"),
        (("--max-peak", "-1"), "'-1' is not a size"),
        (("--max-growth", "256MiB"), "'256MiB' is not a percentage; give 2%"),
        (("--max-fragmentation", "0.2"), "'0.2' is not a percentage; give 2%"),
        (
            ("--measure", "reserved", "--forbid", "leaks"),
            ": reserved memory can't leak; choose another measure",
        ),
        (("--max-peak", "1B", "--write", "junit"), "'junit' is not FORMAT=FILE"),
        (("--max-peak", "1B", "--write", "xml=a"), "'xml=a' is not FORMAT=FILE"),
        (("--max-peak", "1B", "--write", "json=/no/such/x"), "there is no directory /no/such"),
        (("--max-peak", "1B", "--device", "7"), "device"),
        (("--max-peak", "1B", "--write", "json=."), "cannot write .: it's a directory"),
        (
            ("--max-peak", "1B", "--write", "json=x", "--write", "sarif=./x"),
            "cannot write ./x: two formats use it",
        ),
    ],
)
def test_usage_errors_are_reported(
    runner: CliRunner, arguments: tuple[str, ...], words: str
) -> None:
    done = gate(runner, EXAMPLE, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_untrustworthy_snapshot_fails_unless_allowed(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(build.dump(SnapshotBuilder().alloc(512, 90).build()))
    done = gate(runner, "x.pkl", "--max-peak", "1GiB")
    assert done.exit_code == 1
    assert done.stdout.startswith("FAIL held bytes can't be trusted: no_segments (the file has no")
    done = gate(runner, "x.pkl", "--max-peak", "1GiB", "--allow-untrusted")
    assert done.exit_code == 0
    assert ", but are checked anyway:" in done.stdout


# ---- rules


def test_leaks_ooms_and_fragmentation_are_judged(runner: CliRunner) -> None:
    done = gate(runner, LEAKY, "--forbid", "leaks")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == (
        "FAIL leak 64.0 KiB a step over 40 steps (64.0 KiB in train_step train.py:54)"
    )
    assert gate(runner, LEAKY, "--forbid", "oom").exit_code == 0
    done = gate(runner, OOM, "--forbid", "oom")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == (
        "FAIL out of memory: 2 requests failed, the first of 192.0 MiB in attention model.py:52"
    )
    assert gate(runner, OOM, "--max-fragmentation", "12%").exit_code == 0
    done = gate(runner, OOM, "--max-fragmentation", "10%")
    assert done.exit_code == 1
    words = "FAIL fragmentation 11.2% > 10% (peak reserved 786.0 MiB is 87.9 MiB above peak active)"
    assert done.stdout.startswith(words)
    # A single step can't be judged for leaks, and a gate that judged nothing must not pass.
    for more in ((), ("--strict",), ("--max-peak", "80GiB")):
        done = gate(runner, EXAMPLE, "--forbid", "leaks", *more)
        assert done.exit_code == 1
        assert done.stdout.startswith(
            "FAIL forbid-leaks couldn't be checked: 1 step is too few to distinguish a leak"
        )


def test_configuration_can_limit_a_category(runner: CliRunner, tmp_path: Path) -> None:
    config = tmp_path / "memreplay.toml"
    made = '[[category]]\nname = "mine"\nframes = "model\\\\.py"\n'
    limit = '[[gate]]\ncategory = "mine"\nmax_peak = '
    for most, code in (("'5 GiB'", 0), ("'1 KiB'", 1)):
        config.write_text(made + limit + most, encoding="utf-8")
        done = gate(runner, EXAMPLE, "--config", "memreplay.toml")
        assert (done.exit_code, done.stderr) == (code, "")
        assert " of mine " in done.stdout.splitlines()[0]


def test_budgets_from_the_configuration_are_judged(
    runner: CliRunner, tmp_path: Path, base: str
) -> None:
    config = tmp_path / "memreplay.toml"
    config.write_text(
        '[[gate]]\nname = "acts"\ncategory = "activations"\nmax_growth = "1%"\n'
        '[[gate]]\nannotation = "Optimizer.zero_grad"\nmax_peak = "3 GiB"\n',
        encoding="utf-8",
    )
    named = ("--config", "memreplay.toml")
    done = gate(runner, DEEPER, "--base", base, "--max-peak", "6GiB", *named)
    assert done.exit_code == 1
    first, *lines = done.stdout.splitlines()
    assert first.startswith(
        "FAIL peak held of activations grew by 274.5 MiB (6.9%), more than the limit of 1%"
    )
    assert first.endswith("[acts]")
    for words in ("acts: max-growth", "peak held in Optimizer.zero_grad", "ok    max-peak"):
        assert any(words in line for line in lines), words
    assert gate(runner, DEEPER, "--max-peak", "6GiB", "--config", "none").exit_code == 0
    done = gate(runner, DEEPER, *named)
    assert done.exit_code == 2
    assert (
        "memreplay.toml: gate table 1 ('acts') limits growth; give the base with --base"
        in done.stderr
    )
    config.write_text('[[gate]]\nmax_peak = "x"\n', encoding="utf-8")
    done = gate(runner, DEEPER, *named)
    assert done.exit_code == 2
    assert "memreplay.toml: gate table 1: max_peak: 'x' is not a size" in done.stderr
    assert done.stderr.count("\n") == 1
    (tmp_path / "pyproject.toml").write_text(
        "[[tool.memreplay.gate]]\nannotation = 'nothing'\nmax_peak = '1B'\n", encoding="utf-8"
    )
    done = gate(runner, DEEPER, "--config", "pyproject.toml")
    assert done.exit_code == 2
    assert "gate table 1 is for annotation 'nothing', which device 0 doesn't have" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '[[gate]]\nmax_peak = "1TiB"\n',
        '[[gate]]\nmax_peak = "1KiB"\n',
        '[[category]]\nname = "x"\nframes = "("\n',
        "not toml",
    ],
)
def test_found_configuration_changes_nothing(runner: CliRunner, tmp_path: Path, text: str) -> None:
    expected = gate(runner, EXAMPLE, "--max-peak", "6GiB", "--config", "none")
    unlimited = gate(runner, EXAMPLE)
    config = tmp_path / "memreplay.toml"
    config.write_text(text, encoding="utf-8")
    done = gate(runner, EXAMPLE, "--max-peak", "6GiB")
    assert (done.exit_code, done.stdout) == (expected.exit_code, expected.stdout)
    note = f"memreplay: not using {config}: a gate needs --config memreplay.toml for that\n"
    assert done.stderr == ("" if text == "not toml" else note)
    assert gate(runner, EXAMPLE).exit_code == unlimited.exit_code == 2
    saved = [
        gate(runner, EXAMPLE, "--save-base", f"{i}.json", *more)
        for i, more in enumerate(((), ("--config", "none")))
    ]
    assert [one.exit_code for one in saved] == [0, 0]
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


# ---- bases


def test_each_file_finds_its_base_in_a_folder(runner: CliRunner, tmp_path: Path) -> None:
    bases = tmp_path / "bases"
    bases.mkdir()
    for rank, size in (("rank0", 100), ("rank1", 200)):
        snapshot = build.dump(SnapshotBuilder().alloc(512, size).build())
        (tmp_path / f"{rank}.pkl").write_bytes(snapshot)
        done = runner.invoke(
            app,
            ["gate", f"{rank}.pkl", "--save-base", f"bases/{rank}.json", "--allow-untrusted"],
        )
        assert done.exit_code == 0, done.stderr
    arguments = ["--base", "bases", "--max-growth", "0%", "--allow-untrusted"]
    assert gate(runner, "rank0.pkl", "rank1.pkl", *arguments).exit_code == 0
    # A folder stands for its snapshots.
    run = tmp_path / "run"
    run.mkdir()
    for rank in ("rank0", "rank1"):
        (run / f"{rank}.pkl").write_bytes((tmp_path / f"{rank}.pkl").read_bytes())
    done = gate(runner, "run", *arguments, "--format", "json")
    assert done.exit_code == 0
    assert [one["base_file"] for one in json.loads(done.stdout)["files"]] == [
        "bases/rank0.json",
        "bases/rank1.json",
    ]
    (tmp_path / "empty").mkdir()
    done = gate(runner, "empty", "rank0.pkl", *arguments)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        2,
        "FAIL empty: no snapshot in this folder: no name ends in .pkl, .pickle or .json",
    )
    (tmp_path / "rank2.pkl").write_bytes((tmp_path / "rank1.pkl").read_bytes())
    done = gate(runner, "rank0.pkl", "rank2.pkl", *arguments)
    assert done.exit_code == 2
    assert (
        "bases has no base for it; looked for rank2.json or rank2.pkl.json or rank2.pkl"
        in done.stderr
    )


@pytest.mark.parametrize(
    "content, words",
    [
        (
            b'{"schema": "memreplay.baseline/1", "frames": 3}',
            "damaged baseline: expected `array`, g",
        ),
        (b'{"schema": "memreplay.peak/1"}', "this is 'memreplay.peak/1', not memreplay.base"),
        (b"\x80\x05no", "base.x"),
    ],
)
def test_broken_base_is_reported_once(
    runner: CliRunner, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "base.x").write_bytes(content)
    done = gate(runner, EXAMPLE, DEEPER, "--base", "base.x", "--max-growth", "2%")
    assert done.exit_code in (3, 4)
    assert words in done.stderr
    # The error is printed once, but both files fail.
    assert done.stderr.count("\n") == 1
    assert done.stdout.splitlines()[0].endswith("; 1 more failed")


# ---- formats


def outcome(fmt: str, text: str) -> Any:
    if fmt == "json":
        found = json.loads(text)
        check_against("gate-1.json", found)
        return found["passed"]
    if fmt == "sarif":
        return not json.loads(text)["runs"][0]["results"]
    if fmt == "junit":
        from xml.etree import ElementTree

        root = ElementTree.fromstring(text)
        return root.get("failures") == root.get("errors") == "0"
    if fmt == "github":
        return "::error" not in text
    return "FAIL" not in text


@pytest.mark.parametrize("fmt", ["text", "json", "markdown", "github", "junit", "sarif"])
def test_all_formats_show_the_outcome(runner: CliRunner, tmp_path: Path, fmt: str) -> None:
    for limit, code in (("5GiB", 1), ("6GiB", 0)):
        target = tmp_path / f"{fmt}.{code}"
        done = gate(
            runner, DEEPER, "--max-peak", limit, "--format", fmt, "--write", f"{fmt}={target}"
        )
        assert done.exit_code == code
        assert outcome(fmt, done.stdout) is (code == 0)
        assert target.read_text(encoding="utf-8") == done.stdout


def test_stdout_has_only_the_format_written_to_it(runner: CliRunner, tmp_path: Path) -> None:
    target = tmp_path / "gate.xml"
    written = ("--write", "json=-", "--write", f"junit={target}")
    done = gate(runner, DEEPER, "--max-peak", "5GiB", *written)
    assert done.exit_code == 1
    assert outcome("json", done.stdout) is False
    assert outcome("junit", target.read_text(encoding="utf-8")) is False
    done = gate(runner, DEEPER, "--max-peak", "5GiB", *written, "--write", "sarif=-")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot write -: two formats use it" in done.stderr


def test_annotations_name_files_of_the_repository(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "src" / "gpt" / "model.py"
    code.parent.mkdir(parents=True)
    code.touch()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "src"))
    done = gate(runner, DEEPER, "--base", EXAMPLE, "--max-peak", "5GiB", "--format", "github")
    assert done.stdout.startswith("::error file=gpt/model.py,line=72,title=memreplay gate%3A max")
    monkeypatch.delenv("GITHUB_WORKSPACE")
    monkeypatch.chdir(code.parent)
    done = gate(runner, DEEPER, "--base", EXAMPLE, "--max-peak", "5GiB", "--format", "github")
    assert done.stdout.startswith("::error file=model.py,line=72,")


def test_job_summary_is_appended(
    runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert gate(runner, DEEPER, "--max-peak", "5GiB").exit_code == 1
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n### memreplay gate failed\n")
    assert "| FAIL | max-peak | peak held | 5.5 GiB | 5 GiB |  |" in text
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    done = gate(runner, DEEPER, "--max-peak", "6GiB")
    assert done.exit_code == 0
    assert done.stderr.startswith("memreplay: warning: cannot write the summary ($GITHUB_STEP_SU")


def test_first_line_is_coloured(runner: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert gate(runner, DEEPER, "--max-peak", "5GiB").stdout.startswith("\x1b[31m\x1b[1mFAIL peak")
    assert gate(runner, DEEPER, "--max-peak", "6GiB").stdout.startswith("\x1b[32m\x1b[1mPASS peak")


def test_report_never_replaces_a_snapshot(runner: CliRunner, tmp_path: Path) -> None:
    snap = tmp_path / "snap.pkl.gz"
    snap.write_bytes(Path(EXAMPLE).read_bytes())
    done = gate(runner, str(snap), "--max-peak", "38GiB", "--write", "json=./snap.pkl.gz")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot write ./snap.pkl.gz: it's one of the input files" in done.stderr
    assert snap.read_bytes() == Path(EXAMPLE).read_bytes()


def test_report_never_replaces_the_base(runner: CliRunner, base: str) -> None:
    before = Path(base).read_bytes()
    done = gate(runner, EXAMPLE, "--base", base, "--max-growth", "2%", "--write", f"json={base}")
    assert (done.exit_code, done.stdout) == (2, "")
    assert Path(base).read_bytes() == before


def test_unwritable_report_is_an_error(runner: CliRunner) -> None:
    done = gate(runner, EXAMPLE, "--max-peak", "38GiB", "--write", "json=/proc/gate.json")
    assert done.exit_code == 2
    assert done.stderr.startswith("memreplay: error: cannot write /proc/gate.json: ")


def test_worst_file_comes_first(runner: CliRunner) -> None:
    done = gate(runner, EXAMPLE, DEEPER, "--max-peak", "5GiB")
    assert done.stdout.startswith("FAIL transformer_deeper.pkl.gz: peak held 5.5 GiB > 5 GiB (")


# ---- fleets

ODD = ROOT / "examples" / "fsdp_odd_ranks"


def test_rank_far_above_the_median_fails(runner: CliRunner) -> None:
    found = gate(runner, str(ODD), "--max-spread", "5%", "--top", "3")
    assert found.exit_code == 1
    first = found.stdout.splitlines()[0]
    assert first == (
        "FAIL rank5.pkl.gz: peak held on device 5 +21.4% over the median of 8 files > +5%"
        " (871.3 MiB -> 1.0 GiB; +176.8 MiB in keep_history metrics.py:10)"
    )
    assert "rank4" not in found.stdout
    assert found.stdout.endswith("note: 7 more files passed\n")
    assert gate(runner, str(ODD), "--max-spread", "22%").exit_code == 0


def test_pattern_is_expanded(runner: CliRunner) -> None:
    folder = gate(runner, str(ODD), "--max-spread", "5%", "--format", "json")
    for more in ((), ("--workers", "2")):
        arguments = (f"{ODD}/*.pkl.gz", "--max-spread", "5%", "--format", "json", *more)
        assert gate(runner, *arguments).stdout == folder.stdout
    nothing = gate(runner, f"{ODD}/*.pickle", "--max-spread", "5%")
    assert nothing.exit_code == 3
    assert nothing.stderr == f"memreplay: error: {ODD}/*.pickle: no such file\n"


def test_urls_are_read(runner: CliRunner) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for number in (4, 5):
        store.pipe(f"/gated/rank{number}.pkl.gz", (ODD / f"rank{number}.pkl.gz").read_bytes())
    try:
        for name in ("memory://gated/*.pkl.gz", "memory://gated/"):
            found = gate(runner, name, "--max-spread", "5%")
            assert found.stdout.startswith("FAIL rank5.pkl.gz: peak held on device 5 +9.7%")
        one = gate(runner, "memory://gated/rank4.pkl.gz", "--max-peak", "2GiB")
        assert one.exit_code == 0
        nothing = gate(runner, "memory://gated/*.pickle", "--max-spread", "5%")
        assert nothing.stderr.count("memory://gated/*.pickle") == 1
        assert "no files match" in nothing.stderr
    finally:
        store.rm("/gated", recursive=True)


def test_missing_ranks_are_reported(runner: CliRunner, tmp_path: Path) -> None:
    for number in (0, 1, 4):
        (tmp_path / f"rank{number}.pkl.gz").symlink_to(ODD / f"rank{number}.pkl.gz")
    found = gate(runner, str(tmp_path), "--max-spread", "5%")
    assert (found.exit_code, found.stdout.splitlines()[-1]) == (
        0,
        "note: 2 more files passed; no file of ranks 2, 3",
    )
    report = json.loads(gate(runner, str(tmp_path), "--forbid", "oom", "--format", "json").stdout)
    assert report["missing_ranks"] == [2, 3]
    named = [str(tmp_path / f"rank{number}.pkl.gz") for number in (0, 4)]
    assert "no file of" not in gate(runner, *named, "--max-spread", "5%").stdout


def test_spread_needs_several_files(runner: CliRunner) -> None:
    found = gate(runner, EXAMPLE, "--max-spread", "5%")
    assert found.exit_code == 1
    assert found.stdout.startswith("FAIL max-spread couldn't be checked: it needs several files")


def test_spreads_from_the_configuration_are_judged(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "memreplay.toml").write_text(
        '[[gate]]\nname = "even"\nmax_spread = "5%"\nmeasure = "requested"\n'
        '[[gate]]\nname = "activations"\nmax_spread = "0%"\ncategory = "activations"\n'
    )
    found = gate(runner, str(ODD), "--config", "memreplay.toml")
    assert found.exit_code == 1
    assert "FAIL  even: max-spread" in found.stdout
    assert "activations: max-spread" in found.stdout
